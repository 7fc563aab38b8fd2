package linear

import (
	"fmt"
	"time"
)

// Revision is a resourceVersion: the place of a write in the order of all writes.
type Revision uint64

// Key names an object. A list has the kind only.
type Key struct {
	Kind Kind
	Name string
}

func (k Key) String() string {
	if k.Name == "" {
		return string(k.Kind)
	}
	return fmt.Sprintf("%s/%s", k.Kind, k.Name)
}

// Object is what is looked at in an object. The zero value is an object that is
// not there.
type Object struct {
	UID      string
	Revision Revision
	Value    string
}

func (o Object) String() string {
	if o == (Object{}) {
		return "nothing"
	}
	return fmt.Sprintf("%s at %d (uid %.8s)", o.Value, o.Revision, o.UID)
}

// Verb is what an operation does.
type Verb string

const (
	Create Verb = "create"
	Update Verb = "update"
	Patch  Verb = "patch"
	Delete Verb = "delete"
	Get    Verb = "get"
	List   Verb = "list"
)

// Mode says how fresh a read must be.
type Mode string

const (
	Latest   Mode = "latest"     // resourceVersion unset: everything that had happened before
	Any      Mode = "any"        // resourceVersion=0: whatever was there at some time
	NotOlder Mode = "not older"  // than Operation.At
	Exact    Mode = "exactly at" // Operation.At; of lists
)

// Outcome is what is known about an operation. The zero value is an operation
// whose outcome is unknown.
type Outcome string

const (
	Unknown  Outcome = ""          // it may have happened, or may yet, or not
	Done     Outcome = "done"      // with what the answer shows
	NotFound Outcome = "not found" // refused: the object was not there
	Exists   Outcome = "exists"    // refused: the object was there
	Conflict Outcome = "conflict"  // refused: a precondition was not met
	Refused  Outcome = "refused"   // and nothing was written, for reasons that say nothing about the object
)

// Operation is a request and its answer.
type Operation struct {
	Client   int
	Endpoint string
	Verb     Verb
	Key      Key
	// Call is before the request was sent, Return after the answer had come: of a
	// list in pages, the first one, which settles its revision. Both since the
	// beginning of the history.
	Call, Return time.Duration

	Value    string   // what a write wants to store; no two are alike
	UID      string   // precondition of a write; empty: none
	Revision Revision // precondition of a write; 0: none
	Mode     Mode     // of a read
	At       Revision // of a read that is not older, or exact

	Outcome Outcome
	Object  Object // as it was read or written; of a deletion, the UID of what was removed
	Pages   []Page // of a list
}

// writes says whether the operation is to change something.
func (o *Operation) writes() bool { return o.Verb != Get && o.Verb != List }

func (o *Operation) String() string {
	s := fmt.Sprintf("client %d at %s, %v to %v: %s %s", o.Client, o.Endpoint,
		o.Call.Round(time.Microsecond), o.Return.Round(time.Microsecond), o.Verb, o.Key)
	if o.Mode != "" {
		s += " " + string(o.Mode)
	}
	if o.At != 0 {
		s += fmt.Sprint(" ", o.At)
	}
	if o.Value != "" {
		s += " value " + o.Value
	}
	if o.Revision != 0 {
		s += fmt.Sprint(" if at ", o.Revision)
	}
	if o.UID != "" {
		s += fmt.Sprintf(" if uid %.8s", o.UID)
	}
	if o.Outcome == Unknown {
		return s + ": outcome unknown"
	}
	s += ": " + string(o.Outcome)
	switch {
	case o.Outcome != Done:
	case o.Verb == List && len(o.Pages) > 0:
		s += fmt.Sprintf(", %d pages at %d", len(o.Pages), o.Pages[0].Revision)
	case o.Verb == Delete:
		s += fmt.Sprintf(", uid %.8s", o.Object.UID)
	default:
		s += ", " + o.Object.String()
	}
	return s
}

// meets says whether an object is what the preconditions of a write ask for.
func (o *Operation) meets(is Object) bool {
	return (o.UID == "" || o.UID == is.UID) && (o.Revision == 0 || o.Revision == is.Revision)
}

// Page is an answer to one of the requests of a list.
type Page struct {
	Revision Revision
	Items    []Item
}

// Item is an object of a list.
type Item struct {
	Name   string
	Object Object
}

// EventType is the type of a watch event.
type EventType string

const (
	Added    EventType = "ADDED"
	Modified EventType = "MODIFIED"
	Deleted  EventType = "DELETED"
	Bookmark EventType = "BOOKMARK"
)

// Event is what a watcher was told. A bookmark has no name, and a revision only.
type Event struct {
	Type   EventType
	Name   string
	Object Object
	Seen   time.Duration
}

func (e Event) String() string {
	if e.Type == Bookmark {
		return fmt.Sprintf("%s at %d", e.Type, e.Object.Revision)
	}
	return fmt.Sprintf("%s %s: %v", e.Type, e.Name, e.Object)
}

// Stream is what one watcher was told from one list to the next, over all the
// connections in between.
type Stream struct {
	Watcher int
	Kind    Kind
	From    Revision // events after it
	Events  []Event
	Last    bool // it was going on in the end
}

// position is how far the stream has come.
func (s *Stream) position() Revision {
	if n := len(s.Events); n > 0 {
		return max(s.From, s.Events[n-1].Object.Revision)
	}
	return s.From
}

func (s *Stream) String() string {
	return fmt.Sprintf("watcher %d of %s from %d", s.Watcher, s.Kind, s.From)
}
