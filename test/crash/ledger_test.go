package crash

import (
	"fmt"
	"slices"
	"strings"
)

// An object has the fields of an object that are checked. The zero value means that it does not
// exist.
type object struct {
	uid  string
	rv   uint64
	step int // number of the write in the history of its name
}

func (o object) String() string {
	if o == (object{}) {
		return "nothing"
	}
	return fmt.Sprintf("step %d at resourceVersion %d (uid %s)", o.step, o.rv, o.uid)
}

// An event is an event of a watch.
type event struct {
	kind string // ADDED, MODIFIED or DELETED
	name string
	object
}

func (e event) String() string { return fmt.Sprintf("%s %s: %v", e.kind, e.name, e.object) }

// A write is a request.
type write struct {
	kind    string // of the event that it causes
	step    int
	outcome outcome
	object  // as in the response; for a delete, the deleted object
}

type outcome int

const (
	open         outcome = iota // no response
	acknowledged                // successful response
	happened                    // no response, but found to have happened
	void                        // no response, and found not to have happened
)

// A history has the writes of one name. They are sent one after the other, so that only the last
// one may be open.
type history struct {
	name   string
	writes []write
}

// current returns the object that must exist, without the open write.
func (h *history) current() object {
	for _, w := range slices.Backward(h.writes) {
		if w.outcome == open || w.outcome == void {
			continue
		}
		if w.kind == "DELETED" {
			return object{}
		}
		return w.object
	}
	return object{}
}

// begin records that a write is about to be sent, and returns its number.
func (h *history) begin(kind string) int {
	h.writes = append(h.writes, write{kind: kind, step: len(h.writes) + 1})
	return len(h.writes)
}

// acknowledge records the response to the last write.
func (h *history) acknowledge(answer object) {
	last := &h.writes[len(h.writes)-1]
	last.object, last.outcome = answer, acknowledged
}

// settle compares the expected object with the one found after a restart, and decides the outcome
// of the open write.
func (h *history) settle(found object) error {
	before := h.current()
	if n := len(h.writes); n > 0 && h.writes[n-1].outcome == open {
		last := &h.writes[n-1]
		last.outcome = void
		if last.explains(before, found) {
			last.outcome, last.object = happened, found
			if last.kind == "DELETED" {
				last.object = before
			}
		}
	}
	if want := h.current(); found != want {
		return fmt.Errorf("%s: found %v, want %v; its last writes were %v",
			h.name, found, want, h.writes[max(0, len(h.writes)-3):])
	}
	return nil
}

// explains reports whether a write leads from the expected object to the found one.
func (w *write) explains(before, found object) bool {
	if w.kind == "DELETED" {
		return found == object{}
	}
	return found.step == w.step && found.rv > before.rv && (w.kind == "ADDED" || found.uid == before.uid)
}

// compare compares the writes that happened, none of them open, with the events of this name: a
// watcher must receive each once, in order, and nothing else.
func (h *history) compare(events []event) error {
	i := 0
	for _, w := range h.writes {
		if w.outcome == void {
			continue
		}
		if i == len(events) {
			return fmt.Errorf("%s: the watch has left out %v of %v", h.name, w.kind, w.object)
		}
		e := events[i]
		want := event{kind: w.kind, name: h.name, object: w.object}
		if w.kind == "DELETED" {
			// The response does not have the revision of a deletion; ordered checks the revisions
			// of all events together.
			want.rv = max(e.rv, w.rv+1)
		}
		if e != want {
			return fmt.Errorf("%s: the watch has %v, want %v", h.name, e, want)
		}
		i++
	}
	if i < len(events) {
		return fmt.Errorf("%s: the watch has %v, which was not written", h.name, events[i])
	}
	return nil
}

// ordered checks that the revisions of a watch grow, from its start.
func ordered(from uint64, events []event) error {
	for _, e := range events {
		if e.rv <= from {
			return fmt.Errorf("the watch has %v after resourceVersion %d", e, from)
		}
		from = e.rv
	}
	return nil
}

// unique checks that no two writes have the same revision.
func unique(all []*history) error {
	given := map[uint64]string{}
	for _, h := range all {
		for _, w := range h.writes {
			if w.kind == "DELETED" || w.outcome == open || w.outcome == void {
				continue
			}
			if other, taken := given[w.rv]; taken {
				return fmt.Errorf("resourceVersion %d was given to %s and to %s", w.rv, other, h.name)
			}
			given[w.rv] = h.name
		}
	}
	return nil
}

func (w write) String() string {
	words := []string{"no answer to", "acknowledged", "happened without an answer", "did not happen"}
	return strings.Join([]string{words[w.outcome], w.kind, fmt.Sprint("step ", w.step), "giving", w.object.String()}, " ")
}
