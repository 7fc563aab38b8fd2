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
	Object   *object.Object // what the key holds from this revision on; nil if deleted
	Prev     *object.Object // what it held before; nil if created
}

// Last returns the new object, or the deleted one.
func (e *Event) Last() *object.Object {
	if e.Object != nil {
		return e.Object
	}
	return e.Prev
}

func (e *Event) size() int {
	const overhead = 64
	if e.Prev != nil { // the new object is counted when it is replaced
		return overhead + e.Prev.Size()
	}
	return overhead
}

// An item is an object in the index, with a sketch of its labels that can be tested without access
// to the object.
type item struct {
	*object.Object
	labels object.Sketch
}

// at returns an item that compares equal to the object with a namespace and name.
func at(namespace, name string) item {
	return item{Object: &object.Object{Key: object.Key{Namespace: namespace, Name: name}}}
}

// table is one resource: its objects and its history. The State's lock guards it.
type table struct {
	objects *btree.BTreeG[item]
	size    int64           // bytes of the objects
	history []Event         // ascending by revision
	evicted object.Revision // history is complete for revisions after it
	bytes   int
	changed chan struct{} // closed at the next event
	awaited atomic.Bool   // a reader waits on changed; readers set it, under the read lock
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
	t.size += stored(e.Object) - stored(prev.Object)
	t.mark.n.Add(1)
	return Event{Revision: e.Revision, Object: e.Object, Prev: prev.Object}
}

// stored returns the stored size of an object in bytes, 0 for nil.
func stored(o *object.Object) int64 {
	if o == nil {
		return 0
	}
	return int64(len(o.Raw))
}

// record appends an event to the history and returns its size.
func (t *table) record(e Event) int {
	if e.Last() == nil {
		return 0 // a deletion whose object is unknown, which happens only in recovery
	}
	t.history = append(t.history, e)
	t.bytes += e.size()
	return e.size()
}

// evict drops the events up to and including a revision and returns their size. It also marks the
// events up to there that were never in memory as gone.
func (t *table) evict(upTo object.Revision) int {
	freed := t.forget(upTo)
	t.evicted = max(t.evicted, upTo)
	return freed
}

// forget drops the events up to and including a revision and returns their size. Unlike evict, it
// does not affect cursors that have read the last of these events, however long ago that was.
func (t *table) forget(upTo object.Revision) int {
	n := t.after(upTo)
	freed := 0
	for i := range t.history[:n] {
		freed += t.history[i].size()
	}
	if n > 0 {
		t.evicted = max(t.evicted, t.history[n-1].Revision)
	}
	t.drop(n, freed)
	return freed
}

// evictBytes drops the oldest events: at least one, and at least the given number of bytes.
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
	clear(t.history[:n]) // cursors copy the events they read
	t.history = t.history[n:]
	t.bytes -= freed
}

// after returns the index of the first event with a revision above r.
func (t *table) after(r object.Revision) int {
	return sort.Search(len(t.history), func(i int) bool { return t.history[i].Revision > r })
}

// wait returns a channel that is closed at the next event. The caller needs only the read lock.
func (t *table) wait() <-chan struct{} {
	t.awaited.Store(true)
	return t.changed
}

// renew replaces the channel that is to be closed, and appends the old one to dst, if a reader
// waits for it.
func (t *table) renew(dst []chan struct{}) []chan struct{} {
	if t.awaited.Swap(false) {
		dst = append(dst, t.changed)
		t.changed = make(chan struct{})
	}
	return dst
}
