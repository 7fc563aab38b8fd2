package journaltest

import (
	"bytes"
	"fmt"
	"slices"
	"sync"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/object"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Twin is the simplest possible sink: a list of all entries, and a map of the live objects. It
// panics if a journal violates the order.
type Twin struct {
	plain bool // Schema and Written are not compared; never changes

	mu         sync.Mutex
	entries    []journal.Entry
	live       map[object.Key]*object.Object
	head       object.Revision
	since      object.Revision
	batches    int // calls of Apply
	unreadable map[object.Key]error
}

// NewTwin returns an empty Twin.
func NewTwin() *Twin {
	return &Twin{live: map[object.Key]*object.Object{}, unreadable: map[object.Key]error{}}
}

// NewPlainTwin returns an empty Twin that does not compare the fields that journals with
// [Engine.Plain] do not store.
func NewPlainTwin() *Twin {
	w := NewTwin()
	w.plain = true
	return w
}

// Revision implements [journal.Sink].
func (w *Twin) Revision(k object.Key) object.Revision {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.revisionLocked(k)
}

func (w *Twin) revisionLocked(k object.Key) object.Revision {
	if o := w.live[k]; o != nil {
		return o.Revision
	}
	return 0
}

// Apply implements [journal.Sink].
func (w *Twin) Apply(entries []journal.Entry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.batches++
	head := w.head
	for i := range entries {
		e := &entries[i]
		if e.Revision <= head {
			panic(fmt.Sprintf("%s applied at revision %d, behind %d", e.Key, e.Revision, head))
		}
		if at := w.revisionLocked(e.Key); at != e.Prev {
			panic(fmt.Sprintf("%s is at revision %d, and is replaced at %d", e.Key, at, e.Prev))
		}
		w.foldLocked(e)
	}
}

func (w *Twin) foldLocked(e *journal.Entry) {
	if e.Object == nil {
		delete(w.live, e.Key)
	} else {
		if e.Object.Revision != e.Revision {
			panic(fmt.Sprintf("%s at revision %d thinks it is at %d", e.Key, e.Revision, e.Object.Revision))
		}
		w.live[e.Key] = e.Object
	}
	w.entries = append(w.entries, *e)
	w.head = max(w.head, e.Revision)
}

// Restore implements [journal.Sink].
func (w *Twin) Restore(e journal.Entry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := len(w.entries) - 1; i >= 0; i-- {
		if last := &w.entries[i]; last.Key.Resource == e.Key.Resource {
			if last.Revision >= e.Revision {
				panic(fmt.Sprintf("%s restored at revision %d, after %d", e.Key, e.Revision, last.Revision))
			}
			break
		}
	}
	w.foldLocked(&e)
}

// Unreadable implements [journal.Sink].
func (w *Twin) Unreadable(key object.Key, why error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if why != nil {
		w.unreadable[key] = why
	} else {
		delete(w.unreadable, key)
	}
}

// Readable returns why a key cannot be read, or nil if it can.
func (w *Twin) Readable(key object.Key) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.unreadable[key]
}

// Rebase implements [journal.Sink]. It drops earlier entries.
func (w *Twin) Rebase(entries []journal.Entry, head object.Revision) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range entries {
		e := &entries[i]
		if at := w.revisionLocked(e.Key); at != e.Prev {
			panic(fmt.Sprintf("%s is at revision %d, and is rebased from %d", e.Key, at, e.Prev))
		}
		if e.Object == nil {
			delete(w.live, e.Key)
		} else {
			w.live[e.Key] = e.Object
		}
	}
	if head < w.head {
		panic(fmt.Sprintf("rebased from %d to %d", w.head, head))
	}
	w.head, w.since, w.entries = head, head, nil
}

// Restored implements [journal.Sink].
func (w *Twin) Restored(head, since object.Revision) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if head < w.head || since > head {
		panic(fmt.Sprintf("restored up to %d since %d, entries up to %d", head, since, w.head))
	}
	w.head, w.since = head, since
	slices.SortStableFunc(w.entries, func(a, b journal.Entry) int { return int(a.Revision - b.Revision) })
}

// Head returns the newest revision that the twin has received.
func (w *Twin) Head() object.Revision {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.head
}

// Since returns the revision after which the twin has all entries.
func (w *Twin) Since() object.Revision {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.since
}

// Entries returns all entries so far, in order.
func (w *Twin) Entries() []journal.Entry {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clip(w.entries)
}

// Live returns what every key holds.
func (w *Twin) Live() map[object.Key]*object.Object {
	w.mu.Lock()
	defer w.mu.Unlock()
	live := make(map[object.Key]*object.Object, len(w.live))
	for k, o := range w.live {
		live[k] = o
	}
	return live
}

// SameObjects compares what is live in two twins.
func (w *Twin) SameObjects(o *Twin) error {
	a, b := w.Live(), o.Live()
	for k, x := range a {
		if err := sameObject(b[k], x, o.plain); err != nil {
			return fmt.Errorf("%s: %w", k, err)
		}
	}
	for k := range b {
		if a[k] == nil {
			return fmt.Errorf("%s is there and should not be", k)
		}
	}
	return nil
}

// SameEntries compares the entries of two twins after a revision.
func (w *Twin) SameEntries(o *Twin, after object.Revision) error {
	young := func(w *Twin) []journal.Entry {
		all := w.Entries()
		i, _ := slices.BinarySearchFunc(all, after, func(e journal.Entry, r object.Revision) int { return int(e.Revision - r - 1) })
		return all[i:]
	}
	a, b := young(w), young(o)
	for i := range min(len(a), len(b)) {
		if err := sameEntry(&b[i], &a[i], o.plain); err != nil {
			return err
		}
	}
	if len(a) != len(b) {
		return fmt.Errorf("%d entries after revision %d, want %d", len(b), after, len(a))
	}
	return nil
}

// after returns the twin with the history of its predecessor.
func (w *Twin) after(before *Twin) *Twin {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.entries = before.Entries()
	return w
}

// records returns the expected result of History, computed from the first entry on.
func (w *Twin) records(resource schema.GroupResource, after, upTo object.Revision) []journal.Record {
	var records []journal.Record
	at := map[object.Key]*object.Object{}
	for _, e := range w.Entries() {
		if e.Key.Resource != resource {
			continue
		}
		if e.Revision > after && e.Revision <= upTo {
			records = append(records, journal.Record{Entry: e, Replaced: at[e.Key]})
		}
		at[e.Key] = e.Object
	}
	return records
}

func sameRecord(got, want *journal.Record, plain bool) error {
	if err := sameEntry(&got.Entry, &want.Entry, plain); err != nil {
		return err
	}
	if err := sameObject(got.Replaced, want.Replaced, plain); err != nil {
		return fmt.Errorf("what %s replaced at %d: %w", got.Key, got.Revision, err)
	}
	return nil
}

func sameEntry(got, want *journal.Entry, plain bool) error {
	if got.Key != want.Key || got.Revision != want.Revision || got.Prev != want.Prev {
		return fmt.Errorf("%s at %d after %d, want %s at %d after %d", got.Key, got.Revision, got.Prev, want.Key, want.Revision, want.Prev)
	}
	if err := sameObject(got.Object, want.Object, plain); err != nil {
		return fmt.Errorf("%s at %d: %w", got.Key, got.Revision, err)
	}
	return nil
}

// sameObject compares two objects; plain has the meaning of [NewPlainTwin].
func sameObject(got, want *object.Object, plain bool) error {
	switch {
	case got == nil && want == nil:
		return nil
	case got == nil || want == nil:
		return fmt.Errorf("object there: %t, want %t", got != nil, want != nil)
	case got.Key != want.Key || got.Revision != want.Revision:
		return fmt.Errorf("%s at %d, want %s at %d", got.Key, got.Revision, want.Key, want.Revision)
	case !plain && (got.Schema != want.Schema || !got.Written.Equal(want.Written)):
		return fmt.Errorf("schema %d of %v, want %d of %v", got.Schema, got.Written, want.Schema, want.Written)
	case !bytes.Equal(got.Raw, want.Raw):
		return fmt.Errorf("holds %s, want %s", got.Raw, want.Raw)
	case got.Meta.UID != want.Meta.UID:
		return fmt.Errorf("uid %s, want %s", got.Meta.UID, want.Meta.UID)
	}
	return nil
}
