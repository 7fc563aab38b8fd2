package manager

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// A Runnable is what a manager runs.
type Runnable interface {
	// Start runs until the context ends, or something fails. What it has started has ended when it returns.
	Start(context.Context) error
}

// RunnableFunc is a Runnable of a function.
type RunnableFunc func(context.Context) error

// Start implements Runnable.
func (f RunnableFunc) Start(ctx context.Context) error { return f(ctx) }

// A LeaderElectionRunnable says whether it is run by the leader alone. Other Runnables are.
type LeaderElectionRunnable interface {
	Runnable
	NeedLeaderElection() bool
}

// A WarmupRunnable has something to do that needs no leadership, from the start.
type WarmupRunnable interface {
	Runnable
	Warmup(context.Context) error
}

var errStopped = errors.New("the manager has stopped")

// A group runs Runnables from one moment to another. It owns their goroutines.
type group struct {
	name string
	fail func(error) // is told what a Runnable returns

	mu      sync.Mutex
	ctx     context.Context // nil before it starts
	cancel  context.CancelFunc
	stopped bool
	waiting []Runnable // until it starts
	running sync.WaitGroup
}

// add runs r as soon as the group has started.
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

// pending is what waits for the start.
func (g *group) pending() []Runnable {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.waiting)
}

// start starts what waits. It is false, and does nothing, if the group has stopped.
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

// stop tells the Runnables to end, and takes no further ones. The channel is closed when all have ended; a goroutine waits for that.
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
