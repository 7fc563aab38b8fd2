package manager

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// A Runnable is a component that a manager runs.
type Runnable interface {
	// Start blocks until ctx ends or an error occurs. All goroutines that it has started must have
	// ended when it returns. An error stops the manager.
	Start(context.Context) error
}

// RunnableFunc is a function as a Runnable.
type RunnableFunc func(context.Context) error

// Start implements Runnable.
func (f RunnableFunc) Start(ctx context.Context) error { return f(ctx) }

// A LeaderElectionRunnable reports whether only the leader runs it. A Runnable without this method
// is run by the leader only.
type LeaderElectionRunnable interface {
	Runnable
	NeedLeaderElection() bool
}

// A WarmupRunnable prepares before the election is won.
type WarmupRunnable interface {
	Runnable
	Warmup(context.Context) error
}

var errStopped = errors.New("the manager has stopped")

// A group runs Runnables between start and stop. It owns their goroutines.
type group struct {
	name string
	fail func(error) // receives the error of a Runnable

	mu      sync.Mutex
	ctx     context.Context // nil before it starts
	cancel  context.CancelFunc
	stopped bool
	waiting []Runnable // until it starts
	running sync.WaitGroup
}

// add runs r when the group starts, or at once if it has started. It returns errStopped after stop.
func (g *group) add(r Runnable) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.stopped:
		return errStopped
	case g.ctx == nil:
		g.waiting = append(g.waiting, r)
	default:
		g.runLocked(r)
	}
	return nil
}

// pending returns the Runnables that wait for the start.
func (g *group) pending() []Runnable {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.waiting)
}

// start starts the waiting Runnables. If the group has stopped, it does nothing and returns false.
func (g *group) start(ctx context.Context) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stopped {
		return false
	}
	g.ctx, g.cancel = context.WithCancel(ctx)
	for _, r := range g.waiting {
		g.runLocked(r)
	}
	g.waiting = nil
	return true
}

func (g *group) runLocked(r Runnable) {
	ctx := g.ctx
	g.running.Go(func() {
		if err := r.Start(ctx); err != nil {
			g.fail(err)
		}
	})
}

// stop cancels the Runnables and rejects further ones. It returns a channel that is closed when all
// of them have ended.
func (g *group) stop() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stopped = true
	g.waiting = nil
	if g.cancel != nil {
		g.cancel()
	}
	ended := make(chan struct{})
	go func() {
		g.running.Wait()
		close(ended)
	}()
	return ended
}
