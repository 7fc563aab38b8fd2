package cache

import (
	"iter"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// A deltaType is the kind of a change.
type deltaType int

const (
	added    deltaType = iota
	updated            // changed, as a watch says
	replaced           // in a list
	deleted
)

// A delta is a change of an object. Its entry is the state after the change, or the last known
// state of a deleted object.
type delta struct {
	deltaType
	*entry
	source  int  // the reflector that saw it
	initial bool // in the first list
	unknown bool // the deletion was missed, and the entry may not be the last state
}

// A progress says that a reflector has reported all changes up to a resourceVersion.
type progress struct {
	source   int
	revision string
	list     bool // the end of a list: the reflector has reported all objects

	after uint64 // the number of deltas before it
}

// A deltaQueue connects reflectors with a store. For each object it holds the pending changes, in
// the order in which they came, and returns them together; objects are ordered by their first
// change. Successive deletions of an object are merged. It never blocks a reflector and never drops
// a change. These are the properties of client-go's DeltaFIFO, except that a resync does not pass
// through the queue: see [HandlerOptions].
type deltaQueue struct {
	mu       sync.Mutex
	pending  map[types.NamespacedName]*pendingObject
	order    []*pendingObject // a FIFO, of which order[:head] have been taken
	head     int
	taken    []delta // by the last pop: being applied, or applied
	progress []progress
	count    uint64        // of all deltas ever added
	ready    chan struct{} // has a token if there is something to take
}

type pendingObject struct {
	deltas []delta
	first  uint64 // how many deltas had been added before
	one    [1]delta
}

func newDeltaQueue() *deltaQueue {
	return &deltaQueue{pending: map[types.NamespacedName]*pendingObject{}, ready: make(chan struct{}, 1)}
}

// add adds a change. Its reflector has then reported everything up to a revision.
func (q *deltaQueue) add(d delta, revision string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.addLocked(d)
	q.progressLocked(progress{source: d.source, revision: revision})
}

// advance records that a source has no more changes up to a revision.
func (q *deltaQueue) advance(source int, revision string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.progressLocked(progress{source: source, revision: revision})
}

// replace adds the result of a list: all its objects, and deletions of objects that are no longer
// in it. known returns the objects in the store that belong to the list; it is called with the
// queue locked.
func (q *deltaQueue) replace(list []*entry, source int, revision string, initial bool, known iter.Seq[*entry]) {
	q.mu.Lock()
	defer q.mu.Unlock()
	present := make(map[types.NamespacedName]bool, len(list))
	for _, e := range list {
		present[e.key()] = true
		q.addLocked(delta{deltaType: replaced, entry: e, source: source, initial: initial})
	}
	var gone []delta
	vanished := func(e *entry) {
		if key := e.key(); !present[key] {
			present[key] = true
			gone = append(gone, delta{deltaType: deleted, entry: e, source: source, unknown: true})
		}
	}
	// Changes that are pending or being applied are newer than the store.
	last := func(deltas []delta) {
		if d := deltas[len(deltas)-1]; d.source == source && d.deltaType != deleted {
			vanished(d.entry)
		}
	}
	for _, p := range q.order[q.head:] {
		last(p.deltas)
	}
	if len(q.taken) > 0 {
		last(q.taken)
	}
	for e := range known {
		if p := q.pending[e.key()]; p == nil || p.deltas[len(p.deltas)-1].deltaType != deleted {
			vanished(e)
		}
	}
	for _, d := range gone {
		q.addLocked(d)
	}
	q.progressLocked(progress{source: source, revision: revision, list: true})
}

func (q *deltaQueue) addLocked(d delta) {
	defer func() { q.count++ }()
	key := d.key()
	p := q.pending[key]
	if p == nil {
		if q.head > 1024 && q.head > len(q.order)/2 {
			q.order, q.head = q.order[:copy(q.order, q.order[q.head:])], 0
		}
		p = &pendingObject{first: q.count}
		p.deltas = p.one[:0]
		q.pending[key] = p
		q.order = append(q.order, p)
	}
	if n := len(p.deltas); n > 0 && d.deltaType == deleted && p.deltas[n-1].deltaType == deleted {
		if p.deltas[n-1].unknown && !d.unknown {
			p.deltas[n-1] = d // its state is newer
		}
		return
	}
	p.deltas = append(p.deltas, d)
}

func (q *deltaQueue) progressLocked(p progress) {
	p.after = q.count
	q.progress = append(q.progress, p)
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// pop removes and returns the changes of one object, and the progress of the reflectors once these
// are applied. It returns nothing if the queue is empty. A call implies that the changes of the
// last call have been applied.
func (q *deltaQueue) pop() (deltas []delta, reached []progress) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.taken = nil
	if q.head < len(q.order) {
		p := q.order[q.head]
		q.order[q.head] = nil
		if q.head++; q.head == len(q.order) {
			q.order, q.head = q.order[:0], 0
			if cap(q.order) > 1024 {
				q.order, q.pending = nil, map[types.NamespacedName]*pendingObject{} // both are empty, but have kept their capacity
			}
		}
		deltas = p.deltas
		delete(q.pending, deltas[0].key())
		q.taken = deltas
	}
	// All changes that are not pending have been applied.
	made := q.count
	if q.head < len(q.order) {
		made = q.order[q.head].first
	}
	n := 0
	for n < len(q.progress) && q.progress[n].after <= made {
		n++
	}
	reached = q.progress[:n:n]
	if q.progress = q.progress[n:]; len(q.progress) == 0 {
		q.progress = nil
	}
	return deltas, reached
}
