package reaper

import (
	"container/heap"
	"time"

	"github.com/kapok-dev/kapok/internal/object"
)

// A queue has distinct keys in order of arrival.
type queue struct {
	keys []object.Key
	in   map[object.Key]struct{}
}

func (q *queue) add(key object.Key) {
	if _, has := q.in[key]; has {
		return
	}
	if q.in == nil {
		q.in = map[object.Key]struct{}{}
	}
	q.in[key] = struct{}{}
	q.keys = append(q.keys, key)
}

// take removes and returns the first keys, up to n.
func (q *queue) take(n int) []object.Key {
	n = min(n, len(q.keys))
	keys := q.keys[:n:n]
	q.keys = q.keys[n:]
	if len(q.keys) == 0 {
		q.keys = nil
	}
	for _, key := range keys {
		delete(q.in, key)
	}
	return keys
}

// A timer is the time to process a key again: because the object at a revision expires, or to
// retry. All times of one heap need a monotonic reading: otherwise a jump of the wall clock would
// change their order.
type timer struct {
	at   time.Time
	key  object.Key
	ends object.Revision // 0 for a retry
}

// timers are ordered by time.
type timers struct{ heap timerHeap }

// again schedules a retry of a key.
func (t *timers) again(at time.Time, key object.Key) { t.add(timer{at: at, key: key}) }

// end schedules the expiry of an object, unless it changes.
func (t *timers) end(at time.Time, o *object.Object) {
	t.add(timer{at: at, key: o.Key, ends: o.Revision})
}

func (t *timers) add(one timer) { heap.Push(&t.heap, one) }

// alarm returns a channel that receives a value when the next timer is due, nil if there is none,
// and a function that releases it.
func (t *timers) alarm() (<-chan time.Time, func()) {
	if len(t.heap) == 0 {
		return nil, func() {}
	}
	next := time.NewTimer(time.Until(t.heap[0].at))
	return next.C, func() { next.Stop() }
}

// due removes and returns the timers that are due.
func (t *timers) due(now time.Time) (due []timer) {
	for len(t.heap) > 0 && !t.heap[0].at.After(now) {
		due = append(due, heap.Pop(&t.heap).(timer))
	}
	return due
}

type timerHeap []timer

func (h timerHeap) Len() int           { return len(h) }
func (h timerHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h timerHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *timerHeap) Push(t any)        { *h = append(*h, t.(timer)) }
func (h *timerHeap) Pop() any {
	last := len(*h) - 1
	t := (*h)[last]
	*h = (*h)[:last]
	return t
}
