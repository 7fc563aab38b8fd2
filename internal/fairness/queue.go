package fairness

import (
	"math"
	"slices"
	"time"
)

// seatTime is seats times time, in units of a seat for 10 ns, as Kubernetes has it: 64 bits are enough for years.
type seatTime int64

func seatsFor(seats float64, d time.Duration) seatTime {
	return seatTime(math.Round(seats * float64(d) / 10))
}

// guess is how long a request is taken to be served, until it is known.
const guess = 3 * time.Millisecond

// A queue of a level. Requests leave it in the order in which they have come.
type queue struct {
	index   int
	waiting []*waiter
	work    seatTime // of those that wait
	// start is the point of virtual time at which the next request would begin if all queues were served at once, each as fast as
	// the others.
	start     seatTime
	executing int
}

func (q *queue) busy() bool { return len(q.waiting) > 0 || q.executing > 0 }

// catchUp keeps a queue from saving up: nothing begins, in virtual time either, before it has come.
func (q *queue) catchUp() {
	if len(q.waiting) > 0 {
		q.start = max(q.start, q.waiting[0].arrived)
	}
}

// queues are those of a level, and the virtual time in which they compete. It is guarded by the lock of the level.
type queues struct {
	all    []*queue // more than the dealer deals while what is in the others drains
	busy   int      // how many are
	last   int      // index of the queue that was served last
	dealt  int      // requests, so far
	now    seatTime // virtual time: what each queue has had since the level was idle
	synced instant  // until when that goes
}

// advance brings virtual time up to now: while wanted seats are wanted, the busy queues together get these, or the limit.
func (qs *queues) advance(now instant, wanted, limit int) {
	passed := now - qs.synced
	qs.synced = max(now, qs.synced)
	if qs.busy == 0 || passed <= 0 {
		return
	}
	qs.now += seatsFor(float64(min(wanted, limit))/float64(qs.busy), passed)
	if qs.now > tooFar {
		qs.rewind()
	}
}

// tooFar is when virtual time is set back to zero, and everything with it.
const tooFar = seatTime(1) << 61

func (qs *queues) rewind() {
	for _, q := range qs.all {
		q.start -= qs.now
		for _, w := range q.waiting {
			w.arrived -= qs.now
		}
	}
	qs.now = 0
}

// resize makes sure that there are n queues. Those that are too many go when they are empty.
func (qs *queues) resize(n int) {
	for i := len(qs.all); i < n; i++ {
		qs.all = append(qs.all, &queue{index: i})
	}
	for len(qs.all) > n && !qs.all[len(qs.all)-1].busy() {
		qs.all = qs.all[:len(qs.all)-1]
	}
	if qs.last >= len(qs.all) {
		qs.last = 0
	}
}

// pick returns the queue of a hand with the least work waiting.
func (qs *queues) pick(hand []int) *queue {
	first := qs.dealt % len(hand) // not always the same of those that are equal
	qs.dealt++
	var best *queue
	for i := range hand {
		if q := qs.all[hand[(first+i)%len(hand)]]; best == nil || q.work < best.work {
			best = q
		}
	}
	return best
}

// next returns the queue whose first request would be the first to end; of equal ones the first after the one that was last.
func (qs *queues) next() *queue {
	var best *queue
	var earliest seatTime
	for i := range qs.all {
		q := qs.all[(qs.last+1+i)%len(qs.all)]
		if len(q.waiting) == 0 {
			continue
		}
		if end := q.start + q.waiting[0].work.total(); best == nil || end < earliest {
			best, earliest = q, end
		}
	}
	return best
}

// arrive says that a request has come to a queue, and where it stands in virtual time.
func (qs *queues) arrive(q *queue) seatTime {
	if !q.busy() {
		q.start = qs.now
		qs.busy++
	}
	return qs.now
}

// push lets a request wait.
func (q *queue) push(w *waiter) {
	q.waiting = append(q.waiting, w)
	q.work += w.work.total()
	q.catchUp()
}

// remove takes a request out, wherever it stands.
func (q *queue) remove(w *waiter) {
	i := slices.Index(q.waiting, w)
	if i < 0 {
		return
	}
	q.waiting = slices.Delete(q.waiting, i, i+1)
	q.work -= w.work.total()
}

// begin gives the seats to a request that is not, or no longer, waiting.
func (qs *queues) begin(q *queue, w Work) {
	q.executing++
	q.start += w.total()
	qs.last = q.index
	q.catchUp()
}

// end takes note of how long a request really took.
func (qs *queues) end(q *queue, w Work, took time.Duration) {
	q.executing--
	q.start -= seatsFor(float64(w.Seats), guess-took)
	q.catchUp()
	qs.left(q)
}

// left says that a queue may no longer be busy.
func (qs *queues) left(q *queue) {
	if q.busy() {
		return
	}
	if qs.busy--; qs.busy == 0 {
		qs.now = 0 // whoever comes next sets the start of his queue
	}
}
