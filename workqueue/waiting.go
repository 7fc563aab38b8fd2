package workqueue

import (
	"container/heap"
	"time"
)

// waiting holds the delayed keys, each once, ordered by the time at which they are ready.
type waiting[K comparable] struct {
	heap  delays[K]
	keys  map[K]*delayed[K]
	timer *time.Timer // for the first, nil if there is none yet
	fire  func()
	seq   uint64
}

type delayed[K comparable] struct {
	key      K
	priority int
	at       time.Time
	seq      uint64 // insertion order
	index    int
}

func (w *waiting[K]) init(fire func()) { w.keys, w.fire = map[K]*delayed[K]{}, fire }

// delayLocked delays a key. If it is delayed already, the earlier time and the higher priority
// count.
func (q *Queue[K]) delayLocked(key K, priority int, after time.Duration) {
	if q.shutting {
		return
	}
	q.waiting.add(key, priority, time.Now().Add(after))
}

// due makes the keys ready whose time has come.
func (q *Queue[K]) due() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.shutting {
		return
	}
	now := time.Now()
	for d := q.waiting.take(now); d != nil; d = q.waiting.take(now) {
		q.addLocked(d.key, d.priority)
	}
	q.waiting.arm()
}

func (w *waiting[K]) add(key K, priority int, at time.Time) {
	d := w.keys[key]
	if d == nil {
		w.seq++
		d = &delayed[K]{key: key, priority: priority, at: at, seq: w.seq}
		w.keys[key] = d
		heap.Push(&w.heap, d)
	} else {
		d.priority = max(d.priority, priority)
		if at.Before(d.at) {
			d.at = at
			heap.Fix(&w.heap, d.index)
		}
	}
	if d.index == 0 {
		w.arm()
	}
}

// take removes and returns the first key if its time has come.
func (w *waiting[K]) take(now time.Time) *delayed[K] {
	if len(w.heap) == 0 || w.heap[0].at.After(now) {
		return nil
	}
	d := heap.Pop(&w.heap).(*delayed[K])
	delete(w.keys, d.key)
	return d
}

// arm sets the timer for the first key.
func (w *waiting[K]) arm() {
	switch {
	case len(w.heap) == 0:
	case w.timer == nil:
		w.timer = time.AfterFunc(time.Until(w.heap[0].at), w.fire)
	default:
		w.timer.Reset(time.Until(w.heap[0].at))
	}
}

func (w *waiting[K]) clear() {
	w.heap = nil
	clear(w.keys)
	if w.timer != nil {
		w.timer.Stop()
	}
}

type delays[K comparable] []*delayed[K]

func (h delays[K]) Len() int { return len(h) }

func (h delays[K]) Less(i, j int) bool {
	if !h[i].at.Equal(h[j].at) {
		return h[i].at.Before(h[j].at)
	}
	return h[i].seq < h[j].seq
}

func (h delays[K]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *delays[K]) Push(d any) {
	d.(*delayed[K]).index = len(*h)
	*h = append(*h, d.(*delayed[K]))
}

func (h *delays[K]) Pop() any {
	last := len(*h) - 1
	d := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return d
}
