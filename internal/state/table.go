package state

import (
	"sort"
	"sync/atomic"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/object"

	"github.com/tidwall/btree"
)

// An Event is one change of one object, as watchers see it.
type Event struct {
	Revision object.Revision
	Object   *object.Object // what the key holds from now on; nil if deleted
	Prev     *object.Object // what it held before; nil if created
}

// Last is the object that the event tells of: the new one, or the one deleted.
func (e *Event) Last() *object.Object {
	if e.Object != nil {
		return e.Object
	}
	return e.Prev
}

func (e *Event) size() int {
	const overhead = 64
	if e.Prev != nil { // the new object is counted once it is replaced
		return overhead + e.Prev.Size()
	}
	return overhead
}

// An item is an object in the index, with what can be known of it without a look at it.
type item struct {
	*object.Object
	labels object.Sketch
}

// at is an item that stands where the object of a namespace and name does.
func at(namespace, name string) item {
	return item{Object: &object.Object{Key: object.Key{Namespace: namespace, Name: name}}}
}

// table is one resource: its objects and its history. The State's lock guards it.
type table struct {
	objects *btree.BTreeG[item]
	history []Event         // revisions ascending
	evicted object.Revision // history is complete for revisions after it
	bytes   int
	changed chan struct{} // closed once there are more events
	awaited atomic.Bool   // somebody has got changed; set by readers, too
	mark    Mark
}

func less(a, b item) bool { return a.Key.Less(b.Key) }

func newTable(evicted object.Revision) *table {
	return &table{
		objects: btree.NewBTreeGOptions(less, btree.Options{NoLocks: true, Degree: 32}),
		evicted: evicted,
		changed: make(chan struct{}),
	}
}

func (t *table) put(e *journal.Entry) Event {
	var prev item
	if e.Object != nil {
		prev, _ = t.objects.Set(item{e.Object, e.Object.Meta.Labels.Sketch()})
	} else {
		prev, _ = t.objects.Delete(at(e.Key.Namespace, e.Key.Name))
	}
	t.mark.n.Add(1)
	return Event{Revision: e.Revision, Object: e.Object, Prev: prev.Object}
}

// record appends an event to the history and returns its size.
func (t *table) record(e Event) int {
	if e.Last() == nil {
		return 0 // a deletion whose object is no longer known: recovery only
	}
	t.history = append(t.history, e)
	t.bytes += e.size()
	return e.size()
}

// evict forgets the events up to and including a revision and returns their size.
func (t *table) evict(upTo object.Revision) int {
	n := t.after(upTo)
	freed := 0
	for i := range t.history[:n] {
		freed += t.history[i].size()
	}
	t.drop(n, freed)
	if upTo > t.evicted {
		t.evicted = upTo
	}
	return freed
}

// evictBytes forgets the oldest events, at least one and at least so many bytes.
func (t *table) evictBytes(bytes int) int {
	freed, n := 0, 0
	for n < len(t.history) && freed <= bytes {
		freed += t.history[n].size()
		n++
	}
	if n > 0 {
		t.evicted = t.history[n-1].Revision
	}
	t.drop(n, freed)
	return freed
}

func (t *table) drop(n, freed int) {
	if n == 0 {
		return
	}
	clear(t.history[:n]) // cursors hold copies of what they read, not this array
	t.history = t.history[n:]
	t.bytes -= freed
}

// after returns the index of the first event with a revision above r.
func (t *table) after(r object.Revision) int {
	return sort.Search(len(t.history), func(i int) bool { return t.history[i].Revision > r })
}

// wait returns a channel that is closed once there are more events. A read lock is
// enough for it.
func (t *table) wait() <-chan struct{} {
	t.awaited.Store(true)
	return t.changed
}

// renew puts a new channel in the place of the one that is to be closed, which it
// appends to dst, if somebody waits for it.
func (t *table) renew(dst []chan struct{}) []chan struct{} {
	if t.awaited.Swap(false) {
		dst = append(dst, t.changed)
		t.changed = make(chan struct{})
	}
	return dst
}
