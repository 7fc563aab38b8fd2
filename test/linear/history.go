package linear

import (
	"fmt"
	"time"
)

// A Revision is a resourceVersion: the position of a write in the order of all writes.
type Revision uint64

// A Key identifies an object. That of a list has the kind only.
type Key struct {
	Kind Kind
	Name string
}

// String returns KIND/NAME.
func (k Key) String() string {
	if k.Name == "" {
		return string(k.Kind)
	}
	return fmt.Sprintf("%s/%s", k.Kind, k.Name)
}

// An Object has the fields of an object that are checked. The zero value means that it does not
// exist.
type Object struct {
	UID      string
	Revision Revision
	Value    string
}

// String formats the object for reports.
func (o Object) String() string {
	if o == (Object{}) {
		return "nothing"
	}
	return fmt.Sprintf("%s at %d (uid %.8s)", o.Value, o.Revision, o.UID)
}

// A Verb is the type of an operation.
type Verb string

// The verbs of operations.
const (
	Create Verb = "create"
	Update Verb = "update"
	Patch  Verb = "patch"
	Delete Verb = "delete"
	Get    Verb = "get"
	List   Verb = "list"
)

// A Mode is the required freshness of a read.
type Mode string

const (
	Latest   Mode = "latest"     // resourceVersion unset: everything that happened before
	Any      Mode = "any"        // resourceVersion=0: the state at any time
	NotOlder Mode = "not older"  // than Operation.At
	Exact    Mode = "exactly at" // Operation.At; of lists
)

// An Outcome is the known result of an operation. The zero value means that it is unknown.
type Outcome string

const (
	Unknown  Outcome = ""          // it may have happened, may happen later, or never
	Done     Outcome = "done"      // with the object in the response
	NotFound Outcome = "not found" // refused: the object did not exist
	Exists   Outcome = "exists"    // refused: the object existed
	Conflict Outcome = "conflict"  // refused: a precondition did not hold
	Refused  Outcome = "refused"   // nothing was written, for reasons unrelated to the object
)

// An Operation is a request and its response.
type Operation struct {
	Client   int
	Endpoint string
	Verb     Verb
	Key      Key
	// Call is the time before the request was sent, Return the time after the response was read;
	// for a list in pages, the first page, which decides its revision. Both are relative to the
	// beginning of the history.
	Call, Return time.Duration

	Value    string   // the value of a write, which is unique
	UID      string   // precondition of a write; empty: none
	Revision Revision // precondition of a write; 0: none
	Mode     Mode     // of a read
	At       Revision // of a read that is not older, or exact

	Outcome Outcome
	Object  Object // as read or written; for a delete, the UID of the deleted object
	Pages   []Page // of a list
}

// writes reports whether the operation is a write.
func (o *Operation) writes() bool { return o.Verb != Get && o.Verb != List }

// String formats the operation for reports.
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

// meets reports whether an object matches the preconditions of a write.
func (o *Operation) meets(is Object) bool {
	return (o.UID == "" || o.UID == is.UID) && (o.Revision == 0 || o.Revision == is.Revision)
}

// A Page is the response to one request of a list.
type Page struct {
	Revision Revision
	Items    []Item
}

// An Item is an object of a list.
type Item struct {
	Name   string
	Object Object
}

// An EventType is the type of a watch event.
type EventType string

// The types of watch events.
const (
	Added    EventType = "ADDED"
	Modified EventType = "MODIFIED"
	Deleted  EventType = "DELETED"
	Bookmark EventType = "BOOKMARK"
)

// An Event is an event of a watch. A bookmark has a revision only.
type Event struct {
	Type   EventType
	Name   string
	Object Object
	Seen   time.Duration
}

// String formats the event for reports.
func (e Event) String() string {
	if e.Type == Bookmark {
		return fmt.Sprintf("%s at %d", e.Type, e.Object.Revision)
	}
	return fmt.Sprintf("%s %s: %v", e.Type, e.Name, e.Object)
}

// A Stream has the events of one watcher from one list to the next, over all connections in
// between.
type Stream struct {
	Watcher int
	Kind    Kind
	From    Revision // events after it
	Events  []Event
	Last    bool // the stream was open at the end
}

// position returns the revision up to which the stream has come.
func (s *Stream) position() Revision {
	if n := len(s.Events); n > 0 {
		return max(s.From, s.Events[n-1].Object.Revision)
	}
	return s.From
}

// String names the stream in reports.
func (s *Stream) String() string {
	return fmt.Sprintf("watcher %d of %s from %d", s.Watcher, s.Kind, s.From)
}
