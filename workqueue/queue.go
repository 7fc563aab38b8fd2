package workqueue

import (
	"sync"
	"time"
)

// Options configure a queue. The zero value is ready to use.
type Options[K comparable] struct {
	// Name is the label of the queue in metrics. Default "".
	Name string
	// RateLimiter returns the delays of AddRateLimited. Default: DefaultRateLimiter.
	RateLimiter RateLimiter[K]
	// Group returns the group of a key, for example its namespace. Groups take turns. It is called
	// with the queue's lock held, and must be deterministic. Default: one group.
	Group func(K) string
	// Metrics records the metrics of the queue. Default: none.
	Metrics *Metrics
}

// AddOpts are the options of AddWithOpts.
type AddOpts struct {
	// Priority orders ready keys: the highest first. If a key is added more than once, the highest
	// priority counts. Default 0.
	Priority int
	// After is the delay before the key is ready. Default 0.
	After time.Duration
	// RateLimited delays the key as the rate limiter says. If After is also set, the shorter delay
	// counts.
	RateLimited bool
}

// A TypedRateLimitingInterface is the adding half of a queue: the parameter of handlers and
// sources. It is safe for concurrent use. A [Queue] implements it.
type TypedRateLimitingInterface[K comparable] interface {
	// Add adds a key. It does nothing if the key is ready already.
	Add(K)
	// AddAfter adds a key after a delay.
	AddAfter(K, time.Duration)
	// AddRateLimited adds a key when the rate limiter allows it.
	AddRateLimited(K)
	// AddWithOpts adds keys with a priority.
	AddWithOpts(AddOpts, ...K)
}

// PriorityQueue is another name of TypedRateLimitingInterface: every queue has priorities.
type PriorityQueue[K comparable] = TypedRateLimitingInterface[K]

// A Queue orders keys for workers. [New] returns one. It is safe for concurrent use.
type Queue[K comparable] struct {
	limiter RateLimiter[K]
	metrics *queueMetrics

	mu       sync.Mutex
	more     sync.Cond // signaled when a key is ready, and at the shutdown
	drained  sync.Cond // signaled when no key is left, and when the wait is over
	entries  map[K]*entry[K]
	ready    ready[K]
	busy     list[K] // held by workers
	idle     list[K] // released last: keys often come again
	waiting  waiting[K]
	seen     map[int]struct{} // the priorities in use so far, if there are metrics
	shutting bool
	draining bool
}

// maxIdle is the maximum number of idle entries that are retained.
const maxIdle = 1024

// An entry is the state of a key in the queue.
type entry[K comparable] struct {
	key      K
	priority int

	state      state
	again      bool      // added while a worker holds it
	in         *group[K] // while it is ready
	prev, next *entry[K] // in the list of its state

	since time.Time // ready or worked on, if there are metrics
}

type state int

const (
	idle  state = iota
	waits       // ready, until a worker takes it
	busy        // a worker holds it
)

// New returns a queue.
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

// AddAfter adds a key after a delay, with priority 0.
func (q *Queue[K]) AddAfter(key K, after time.Duration) { q.AddWithOpts(AddOpts{After: after}, key) }

// AddRateLimited adds a key after the delay of the rate limiter, with priority 0.
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

// Get blocks until a key is ready, and returns it. The caller holds it until Done. After ShutDown,
// Get returns the ready keys, and then shutdown is true.
func (q *Queue[K]) Get() (key K, shutdown bool) {
	key, _, shutdown = q.GetWithPriority()
	return key, shutdown
}

// GetWithPriority is Get that also returns the priority of the key.
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

// Done releases a key. If it was added while the caller held it, it is ready again. Done ignores a
// key that the caller does not hold.
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

// Forget resets the failures of a key in the rate limiter.
func (q *Queue[K]) Forget(key K) { q.limiter.Forget(key) }

// NumRequeues returns how often AddRateLimited was called for a key since Forget.
func (q *Queue[K]) NumRequeues(key K) int { return q.limiter.NumRequeues(key) }

// Len returns the number of ready keys.
func (q *Queue[K]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ready.len
}

// ShutDown shuts the queue down: added keys are ignored, delayed keys are dropped, and Get returns
// the ready keys and then shutdown.
func (q *Queue[K]) ShutDown() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.shutDownLocked(false)
}

// ShutDownWithDrain is ShutDown that waits until workers have released all keys. A call of ShutDown
// ends the wait.
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

// ShuttingDown reports whether the queue has been shut down.
func (q *Queue[K]) ShuttingDown() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.shutting
}

// sample returns the current state for metrics.
func (q *Queue[K]) sample() sample {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := sample{depth: make(map[int]int, len(q.seen))}
	for priority := range q.seen {
		s.depth[priority] = 0 // so that the series does not end with the last key
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
