package scheduler

import (
	"cmp"
	"container/heap"
	"slices"
	"time"

	"github.com/kapok-dev/kapok/scheduler/place"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The backoff after a failed attempt to schedule a pod, without a configuration: the first one,
// which doubles, and the last.
const (
	firstPause = time.Second
	lastPause  = 10 * time.Second
	// longestWait is the time after which a pod is retried even without an event.
	longestWait = 5 * time.Minute
)

// A queue has the pods without a node. It reads no clock. The zero value is an empty one.
type queue struct {
	first, last time.Duration // backoffs; default firstPause and lastPause

	pods   map[types.UID]*pending
	ready  readyHeap
	paused pausedHeap
	seq    int64
	events int64 // that have happened
}

// A pending is a pod without a node.
type pending struct {
	pod      *corev1.Pod
	since    time.Time // it is in the queue
	seq      int64     // its place among those with the same priority and time
	attempts int
	tried    time.Time // last
	refused  []string  // the plugins that have refused nodes, sorted
	seen     int64     // the events that had happened when it was tried
	missed   bool      // it has changed while it was tried
	prepared []string  // claims for which volumes are provisioned

	at    stage
	until time.Time // of a pause, or of the longest wait
	index int       // in a heap
}

// A stage is where a pod is.
type stage int

const (
	readyNow stage = iota
	trying         // neither in a heap nor waiting
	paused         // tried again after a pause
	waiting        // until something helps
)

// set adds or replaces a pod. A waiting pod is retried if its spec or labels have changed, which
// moved reports.
func (q *queue) set(p *corev1.Pod, moved bool, now time.Time) {
	if q.pods == nil {
		q.pods = map[types.UID]*pending{}
	}
	if have := q.pods[p.UID]; have != nil {
		have.pod = p
		if moved {
			q.retry(have, now)
		}
		return
	}
	q.seq++
	n := &pending{pod: p, since: now, seq: q.seq}
	q.pods[p.UID] = n
	heap.Push(&q.ready, n)
}

// remove forgets a pod.
func (q *queue) remove(uid types.UID) {
	n := q.pods[uid]
	if n == nil {
		return
	}
	delete(q.pods, uid)
	q.leave(n)
}

func (q *queue) leave(n *pending) {
	switch n.at {
	case readyNow:
		heap.Remove(&q.ready, n.index)
	case paused, waiting:
		heap.Remove(&q.paused, n.index)
	}
	n.at = trying
}

// take returns the pod that is next, nil if there is none. Until it is failed or removed, it is not
// returned again.
func (q *queue) take(now time.Time) *pending {
	for len(q.paused) > 0 && !q.paused[0].until.After(now) {
		n := heap.Pop(&q.paused).(*pending)
		n.at = readyNow
		heap.Push(&q.ready, n)
	}
	if len(q.ready) == 0 {
		return nil
	}
	n := heap.Pop(&q.ready).(*pending)
	n.at, n.attempts, n.tried, n.seen, n.missed = trying, n.attempts+1, now, q.events, false
	return n
}

// next returns when a pod is ready again; zero if none will be.
func (q *queue) next() time.Time {
	if len(q.paused) == 0 {
		return time.Time{}
	}
	return q.paused[0].until
}

// fail puts a taken pod back. The pod waits for an event that one of the plugins in refused is
// interested in, or, without any, for its backoff.
func (q *queue) fail(n *pending, refused []string, now time.Time) {
	if q.pods[n.pod.UID] != n {
		return
	}
	n.refused, n.at, n.until = refused, waiting, now.Add(longestWait)
	if len(refused) == 0 || n.missed || n.seen != q.events {
		n.at, n.until = paused, n.tried.Add(q.pause(n))
	}
	heap.Push(&q.paused, n)
}

// gate puts a taken pod back that could not be tried yet: it waits for an event that one of the
// plugins is interested in, and then for no backoff.
func (q *queue) gate(n *pending, plugins []string, now time.Time) {
	n.attempts--
	q.fail(n, plugins, now)
}

// pause returns the backoff of a pod.
func (q *queue) pause(n *pending) time.Duration {
	if n.attempts == 0 {
		return 0
	}
	pause, last := cmp.Or(q.first, firstPause), cmp.Or(q.last, lastPause)
	for range n.attempts - 1 {
		if pause >= last {
			break
		}
		pause *= 2
	}
	return min(pause, last)
}

// retry makes a waiting pod ready after its backoff.
func (q *queue) retry(n *pending, now time.Time) {
	switch n.at {
	case trying:
		n.missed = true
	case waiting:
		q.leave(n)
		n.at, n.until = paused, n.tried.Add(q.pause(n))
		if !n.until.After(now) {
			n.at = readyNow
			heap.Push(&q.ready, n)
			return
		}
		heap.Push(&q.paused, n)
	}
}

// activate makes a pod ready without a backoff.
func (q *queue) activate(n *pending) {
	switch n.at {
	case trying:
		n.missed = true
	case paused, waiting:
		q.leave(n)
		heap.Push(&q.ready, n)
	}
}

// happened retries the pods that one of the plugins has rejected.
func (q *queue) happened(now time.Time, plugins ...string) {
	q.help(now, func(n *pending) bool {
		return slices.ContainsFunc(n.refused, func(name string) bool { return slices.Contains(plugins, name) })
	})
}

// happenedTo retries the pods that a plugin has rejected, if an event is about them.
func (q *queue) happenedTo(now time.Time, plugin string, about func(*corev1.Pod) bool) {
	q.help(now, func(n *pending) bool { return slices.Contains(n.refused, plugin) && about(n.pod) })
}

func (q *queue) help(now time.Time, helps func(*pending) bool) {
	q.events++
	var helped []*pending
	for _, n := range q.paused {
		if n.at == waiting && helps(n) {
			helped = append(helped, n)
		}
	}
	for _, n := range helped {
		q.retry(n, now)
	}
}

// readyHeap has the pods that can be tried, the next one first.
type readyHeap []*pending

func (h readyHeap) Len() int { return len(h) }
func (h readyHeap) Less(i, j int) bool {
	a, b := h[i], h[j]
	if p, q := place.Priority(a.pod), place.Priority(b.pod); p != q {
		return p > q
	}
	if !a.since.Equal(b.since) {
		return a.since.Before(b.since)
	}
	return a.seq < b.seq
}
func (h readyHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}
func (h *readyHeap) Push(x any) {
	n := x.(*pending)
	n.at, n.index = readyNow, len(*h)
	*h = append(*h, n)
}
func (h *readyHeap) Pop() any {
	last := len(*h) - 1
	n := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return n
}

// pausedHeap has the pods that are ready later, the first one first.
type pausedHeap []*pending

func (h pausedHeap) Len() int           { return len(h) }
func (h pausedHeap) Less(i, j int) bool { return h[i].until.Before(h[j].until) }
func (h pausedHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}
func (h *pausedHeap) Push(x any) {
	n := x.(*pending)
	n.index = len(*h)
	*h = append(*h, n)
}
func (h *pausedHeap) Pop() any {
	last := len(*h) - 1
	n := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return n
}
