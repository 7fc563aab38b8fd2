package workqueue

import (
	"sync"
	"time"
)

// Options are the settings of a queue. The zero value is good.
type Options[K comparable] struct {
	// Name is the label of the queue in metrics.
	Name string
	// RateLimiter says how long a key waits in AddRateLimited. Default: DefaultRateLimiter.
	RateLimiter RateLimiter[K]
	// Group names the group of a key, for instance its namespace. Groups take turns. It is called with the queue's lock held, and
	// must always answer the same for the same key. Default: one group.
	Group func(K) string
	// Metrics gets what happens in the queue. Default: nobody does.
	Metrics *Metrics
}

// AddOpts say how a key is added.
type AddOpts struct {
	// Priority orders what is ready: higher first. Of several, the highest counts. Default 0.
	Priority int
	// After is how long the key waits before it is ready.
	After time.Duration
	// RateLimited has the key wait for as long as the rate limiter says, if that is less than After or After is 0.
	RateLimited bool
}

// A Queue hands out keys that something is to be done about. Make one with [New]; all methods may be called from any goroutine.
type Queue[K comparable] struct {
	limiter RateLimiter[K]
	metrics *queueMetrics

	mu       sync.Mutex
	more     sync.Cond // something is ready, or nothing will be any longer
	drained  sync.Cond // nothing is left, or nobody is to wait for that
	entries  map[K]*entry[K]
	ready    ready[K]
	busy     list[K] // what workers have
	idle     list[K] // what they had last: keys come again
	waiting  waiting[K]
	seen     map[int]struct{} // the priorities of what was ready, if there are metrics
	shutting bool
	draining bool
}

// maxIdle is how many entries are kept of keys that nobody waits for.
const maxIdle = 1024

// An entry is what the queue knows of a key.
type entry[K comparable] struct {
	key      K
	priority int

	state      state
	again      bool      // added while a worker has it
	in         *group[K] // while it is ready
	prev, next *entry[K] // in the list of its state

	since time.Time // ready or worked on, if there are metrics
}

type state int

const (
	idle  state = iota
	waits       // ready, until a worker takes it
	busy        // a worker has it
)

// New makes a queue.
func New[K comparable](opts Options[K]) *Queue[K] {
	q := &Queue[K]{limiter: opts.RateLimiter, entries: map[K]*entry[K]{}}
	if q.limiter == nil {
		q.limiter = DefaultRateLimiter[K]()
	}
	q.ready.group = opts.Group
	q.more.L, q.drained.L = &q.mu, &q.mu
	q.waiting.init(q.due)
	if opts.Metrics != nil {
		q.seen = map[int]struct{}{0: {}}
		q.metrics = opts.Metrics.of(opts.Name, q.sample)
	}
	return q
}

// Add adds a key with priority 0.
func (q *Queue[K]) Add(key K) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.addLocked(key, 0)
}

// AddAfter adds a key when the time is up, with priority 0.
func (q *Queue[K]) AddAfter(key K, after time.Duration) { q.AddWithOpts(AddOpts{After: after}, key) }

// AddRateLimited adds a key when the rate limiter allows it, with priority 0.
func (q *Queue[K]) AddRateLimited(key K) { q.AddWithOpts(AddOpts{RateLimited: true}, key) }

// AddWithOpts adds keys.
func (q *Queue[K]) AddWithOpts(opts AddOpts, keys ...K) {
	for _, key := range keys {
		after := opts.After
		if opts.RateLimited {
			if pause := q.limiter.When(key); after <= 0 || pause < after {
				after = pause
			}
			q.metrics.retried()
		}
		q.mu.Lock()
		if after > 0 {
			q.delayLocked(key, opts.Priority, after)
		} else {
			q.addLocked(key, opts.Priority)
		}
		q.mu.Unlock()
	}
}

func (q *Queue[K]) addLocked(key K, priority int) {
	if q.shutting {
		return
	}
	e := q.entries[key]
	if e == nil {
		e = &entry[K]{key: key}
		q.entries[key] = e
		q.idle.push(e)
	}
	switch {
	case e.state == idle:
		q.idle.remove(e)
		q.metrics.added()
		q.readyLocked(e, priority)
	case e.state == busy && !e.again:
		e.again, e.priority = true, priority
		q.metrics.added()
	case priority <= e.priority:
	case e.state == busy:
		e.priority = priority
	default:
		q.ready.remove(e)
		q.pushLocked(e, priority)
	}
}

// readyLocked makes a key ready.
func (q *Queue[K]) readyLocked(e *entry[K], priority int) {
	e.state = waits
	q.pushLocked(e, priority)
	if q.metrics != nil {
		e.since = time.Now()
	}
	q.more.Signal()
}

func (q *Queue[K]) pushLocked(e *entry[K], priority int) {
	e.priority = priority
	q.ready.push(e)
	if q.seen != nil {
		q.seen[priority] = struct{}{}
	}
}

// Get waits for a key, which is the caller's until it calls Done. After ShutDown, shutdown is true when nothing is left.
func (q *Queue[K]) Get() (key K, shutdown bool) {
	key, _, shutdown = q.GetWithPriority()
	return key, shutdown
}

// GetWithPriority is Get, and tells the priority of the key.
func (q *Queue[K]) GetWithPriority() (key K, priority int, shutdown bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.ready.len == 0 && (!q.shutting || q.draining && q.busy.len > 0) {
		q.more.Wait()
	}
	e := q.ready.pop()
	if e == nil {
		return key, 0, true
	}
	e.state = busy
	q.busy.push(e)
	if q.metrics != nil {
		now := time.Now()
		q.metrics.waited(now.Sub(e.since))
		e.since = now
	}
	return e.key, e.priority, false
}

// Done gives a key back. If it was added since, it is ready again. A key that the caller does not have is ignored.
func (q *Queue[K]) Done(key K) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.entries[key]
	if e == nil || e.state != busy {
		return
	}
	q.busy.remove(e)
	if q.metrics != nil {
		q.metrics.worked(time.Since(e.since))
	}
	if e.again {
		e.again = false
		q.readyLocked(e, e.priority)
		return
	}
	e.state = idle
	q.idle.push(e)
	if q.idle.len > maxIdle {
		oldest := q.idle.first
		q.idle.remove(oldest)
		delete(q.entries, oldest.key)
	}
	if q.draining && q.idleLocked() {
		q.more.Broadcast()
		q.drained.Broadcast()
	}
}

// Forget has the rate limiter forget the failures of a key.
func (q *Queue[K]) Forget(key K) { q.limiter.Forget(key) }

// NumRequeues says how often a key was added by AddRateLimited since it was forgotten.
func (q *Queue[K]) NumRequeues(key K) int { return q.limiter.NumRequeues(key) }

// Len is how many keys are ready.
func (q *Queue[K]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ready.len
}

// ShutDown ends the queue: what is added is ignored, what is delayed is dropped, and Get returns what is ready, and then that
// the queue shuts down.
func (q *Queue[K]) ShutDown() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.shutDownLocked(false)
}

// ShutDownWithDrain is ShutDown, and waits until workers are done with all that was ready. ShutDown ends the wait.
func (q *Queue[K]) ShutDownWithDrain() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.shutDownLocked(true)
	for q.draining && !q.idleLocked() {
		q.drained.Wait()
	}
}

func (q *Queue[K]) shutDownLocked(drain bool) {
	q.shutting, q.draining = true, drain
	q.waiting.clear()
	q.metrics.forget()
	q.more.Broadcast()
	q.drained.Broadcast()
}

func (q *Queue[K]) idleLocked() bool { return q.ready.len == 0 && q.busy.len == 0 }

// ShuttingDown says whether the queue has been shut down.
func (q *Queue[K]) ShuttingDown() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.shutting
}

// sample is what metrics show of this moment.
func (q *Queue[K]) sample() sample {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := sample{depth: make(map[int]int, len(q.seen))}
	for priority := range q.seen {
		s.depth[priority] = 0 // rather than that the series ends with the last key
	}
	for _, l := range q.ready.levels {
		s.depth[l.priority] = l.len
	}
	now := time.Now()
	for e := q.busy.first; e != nil; e = e.next {
		age := now.Sub(e.since)
		s.unfinished += age
		s.longest = max(s.longest, age)
	}
	return s
}
