package metamorphic

import (
	"fmt"
	"strings"
)

// verb is the operation of a step.
type verb string

const (
	create     verb = "create"
	update     verb = "update"
	merge      verb = "merge patch"
	jsonPatch  verb = "json patch"
	status     verb = "patch status"
	remove     verb = "delete"
	collection verb = "delete collection"
	get        verb = "get"
	list       verb = "list"
	page       verb = "page"
	watch      verb = "watch"
	watchList  verb = "watch list"
	compact    verb = "compact"
	reopen     verb = "reopen"
	crash      verb = "crash"
	examine    verb = "doctor"
	restore    verb = "restore"
)

// An operation is a random choice, of which a [model] makes a step: which objects, values and
// versions it is about follows from the number and from what there is. So operations can be left
// out, and those that remain still make sense.
type operation struct {
	verb   verb
	choice uint64
}

// step is an operation whose choices are made, and the right answer to it. What differs between
// servers is named by what is the same: objects by the version at which they were created,
// resourceVersions by versions.
type step struct {
	verb     verb
	at       key                // name and namespace may be empty
	app      *string            // to be written; nil leaves it
	set      map[string]*string // values to be written; nil removes one
	finalize []string           // finalizers to be written, if writes is true
	writes   bool
	phase    string
	ref      int // the version that is sent as resourceVersion, -1 for none
	uid      int // the object that is sent as a precondition, 0 for none
	selector selector
	limit    int
	exact    bool  // a list at ref, rather than one not older
	slot     int   // where the token to go on with is kept
	first    bool  // a page without a token
	marker   *step // the write that ends a watch
	live     bool  // the watch begins before the marker is written

	learn    int         // the version that the object in the answer has, 0 for none
	versions map[key]int // those of objects that no answer shows
	stays    int         // the version that the object in the answer keeps, as nothing was changed; 0 for none
	past     int         // the requested past version, -1 for none
	want     answer
}

// answer is the part of a response that is compared.
type answer struct {
	code    int
	reason  string
	version string   // of a list
	lines   []string // objects or events
	more    string   // of a page: whether there is a token, and what remains
	note    string   // anything else
}

const expired = "Expired"

func (a answer) String() string {
	text := fmt.Sprint(a.code)
	for _, part := range []string{a.reason, a.version, a.more, a.note} {
		if part != "" {
			text += " " + part
		}
	}
	return strings.Join(append([]string{text}, a.lines...), "\n        ")
}

func (s *step) String() string {
	text := string(s.verb)
	if s.at.kind != "" {
		text += " " + s.at.String()
	}
	if s.app != nil {
		text += fmt.Sprintf(" app=%q", *s.app)
	}
	for name, value := range s.set {
		if value == nil {
			text += " -" + name
		} else {
			text += fmt.Sprintf(" %s=%.20s", name, *value)
		}
	}
	if s.writes {
		text += fmt.Sprint(" finalizers ", s.finalize)
	}
	if s.ref >= 0 {
		text += fmt.Sprintf(" at v%d", s.ref)
	}
	if s.uid != 0 {
		text += fmt.Sprintf(" of #%d", s.uid)
	}
	if s.selector != "" {
		text += " where " + string(s.selector)
	}
	if s.verb == page {
		text += fmt.Sprintf(" of list %d", s.slot)
		if s.first {
			text += fmt.Sprintf(", the first, of %d", s.limit)
		}
	}
	if s.marker != nil {
		text += " until " + s.marker.String()
	}
	return text
}
