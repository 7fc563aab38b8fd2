package fairness

import (
	"context"
	"sync"
	"time"
)

// A waiter is a request in a queue. Its Pass belongs to who holds the lock of the level, until it is granted.
type waiter struct {
	Pass
	came    instant
	arrived seatTime      // in virtual time
	ready   chan struct{} // closed when it is granted
	granted bool          // guarded by the lock of the level
}

// wait waits until a request is let in, and returns false if its time is over before. Those who wait also adjust the
// limits, as nobody else may come who does.
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

// alarms counts the timers of all levels that are set, so that somebody can wait for them.
type alarms struct {
	mu     sync.Mutex
	closed bool
	set    sync.WaitGroup
}

// begin says whether a timer may be set; end is called when it has gone off.
func (a *alarms) begin() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.closed {
		a.set.Add(1)
	}
	return !a.closed
}

func (a *alarms) end() { a.set.Done() }

// close waits until all timers have gone off, which takes milliseconds. No more are set.
func (a *alarms) close() {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.set.Wait()
}
