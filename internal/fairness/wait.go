package fairness

import (
	"context"
	"sync"
	"time"
)

// A waiter is a request in a queue. The lock of the level guards its Pass until it is granted.
type waiter struct {
	Pass
	came    instant
	arrived seatTime      // virtual time of the arrival
	ready   chan struct{} // closed when the seats are granted
	granted bool          // guarded by the lock of the level
}

// wait waits until a request is admitted. It returns false when patience or ctx ends first. Waiting
// requests also adjust the limits, because no other request may arrive to do so.
func (l *Limiter) wait(ctx context.Context, w *waiter, patience time.Duration) (ok bool) {
	deadline := w.came + patience
	timer := time.NewTimer(min(patience, l.untilAdjustment(w.came)))
	defer timer.Stop()
	for {
		select {
		case <-w.ready:
			return true
		case <-ctx.Done():
			return w.flow.level.cancel(l.now(), w)
		case <-timer.C:
		}
		now := l.now()
		if now >= deadline {
			return w.flow.level.cancel(now, w)
		}
		l.adjust(now)
		timer.Reset(min(deadline-now, l.untilAdjustment(now)))
	}
}

// alarms counts the running timers of all levels, so that Close can wait for them.
type alarms struct {
	mu     sync.Mutex
	closed bool
	set    sync.WaitGroup
}

// begin reports whether a timer may be started. The timer must call end after it has fired.
func (a *alarms) begin() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.closed {
		a.set.Add(1)
	}
	return !a.closed
}

func (a *alarms) end() { a.set.Done() }

// close waits until all timers have fired, which takes milliseconds, and prevents new ones.
func (a *alarms) close() {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.set.Wait()
}
