package fairness

import (
	"math"
	"slices"
	"time"
)

// seatTime is a product of seats and time, in units of one seat for 10 ns, as in Kubernetes: 64
// bits suffice for years.
type seatTime int64

func seatsFor(seats float64, d time.Duration) seatTime {
	return seatTime(math.Round(seats * float64(d) / 10))
}

// guess is the assumed duration of a request, until its end corrects it.
const guess = 3 * time.Millisecond

// A queue contains the waiting requests of some flows of a level. It is first in, first out.
type queue struct {
	index   int
	waiting []*waiter
	work    seatTime // of the waiting requests
	// start is the virtual time at which the next request would begin if all queues were served at
	// once, at equal rates.
	start     seatTime
	executing int
}

func (q *queue) busy() bool { return len(q.waiting) > 0 || q.executing > 0 }

// catchUp prevents a queue from accumulating unused time: in virtual time, too, its next request
// does not begin before it has arrived.
func (q *queue) catchUp() {
	if len(q.waiting) > 0 {
		q.start = max(q.start, q.waiting[0].arrived)
	}
}

// queues are the queues of a level, and the virtual time in which they compete. The lock of the
// level guards them.
type queues struct {
	all    []*queue // more than the configured number while the surplus ones drain
	busy   int      // number of busy queues
	last   int      // index of the queue that was served last
	dealt  int      // requests so far
	now    seatTime // virtual time: seat time of each busy queue since the level was idle
	synced instant  // real time that now corresponds to
}

// advance advances virtual time to the instant now: since the last call, the busy queues have
// shared the wanted seats, or the limit if that is less.
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

// tooFar is the virtual time at which rewind sets it back to zero, and shifts all times in queues.
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

// resize provides n queues. It removes surplus ones from the end as they become empty.
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

// pick returns the queue of a hand with the least waiting work.
func (qs *queues) pick(hand []int) *queue {
	first := qs.dealt % len(hand) // varies the choice among equal queues
	qs.dealt++
	var best *queue
	for i := range hand {
		if q := qs.all[hand[(first+i)%len(hand)]]; best == nil || q.work < best.work {
			best = q
		}
	}
	return best
}

// next returns the queue whose first request would end first. Among equals, it returns the first
// one after the queue that was served last.
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

// arrive marks a queue as busy, and returns the virtual time of a request's arrival.
func (qs *queues) arrive(q *queue) seatTime {
	if !q.busy() {
		q.start = qs.now
		qs.busy++
	}
	return qs.now
}

// push adds a waiting request.
func (q *queue) push(w *waiter) {
	q.waiting = append(q.waiting, w)
	q.work += w.work.total()
	q.catchUp()
}

// remove removes a waiting request from any position.
func (q *queue) remove(w *waiter) {
	i := slices.Index(q.waiting, w)
	if i < 0 {
		return
	}
	q.waiting = slices.Delete(q.waiting, i, i+1)
	q.work -= w.work.total()
}

// begin counts a request that begins without waiting, or after it.
func (qs *queues) begin(q *queue, w Work) {
	q.executing++
	q.start += w.total()
	qs.last = q.index
	q.catchUp()
}

// end replaces the guessed duration of a request with the real one.
func (qs *queues) end(q *queue, w Work, took time.Duration) {
	q.executing--
	q.start -= seatsFor(float64(w.Seats), guess-took)
	q.catchUp()
	qs.left(q)
}

// left updates the number of busy queues after a request has left one.
func (qs *queues) left(q *queue) {
	if q.busy() {
		return
	}
	if qs.busy--; qs.busy == 0 {
		qs.now = 0 // the next arrival sets the start of its queue
	}
}
