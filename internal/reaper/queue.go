package reaper

import (
	"container/heap"
	"time"

	"github.com/kapok-dev/kapok/internal/object"
)

// A queue holds keys in the order in which they came, each once.
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

func (q *queue) take() (object.Key, bool) {
	if len(q.keys) == 0 {
		return object.Key{}, false
	}
	key := q.keys[0]
	q.keys = q.keys[1:]
	if len(q.keys) == 0 {
		q.keys = nil
	}
	delete(q.in, key)
	return key, true
}

// A timer says when to look at a key again. ends tells objects whose time is up from those that are tried again.
type timer struct {
	at   time.Time
	key  object.Key
	ends bool
}

// timers are ordered by time.
type timers struct{ heap timerHeap }

func (t *timers) add(at time.Time, key object.Key, ends bool) {
	heap.Push(&t.heap, timer{at, key, ends})
}

// alarm returns a channel that gets a value when the next timer is due, nil if there is none, and what releases it.
func (t *timers) alarm() (<-chan time.Time, func()) {
	if len(t.heap) == 0 {
		return nil, func() {}
	}
	next := time.NewTimer(time.Until(t.heap[0].at))
	return next.C, func() { next.Stop() }
}

// due takes out the timers that are due.
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
