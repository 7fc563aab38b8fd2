// Package housekeeping runs the tasks that one of the servers on a journal performs for all of
// them. The tasks themselves are in the packages below it.
package housekeeping

import (
	"context"
	"sync"

	"github.com/kapok-dev/kapok/internal/housekeeping/replica"
)

// A Task starts the work, and returns a function that stops it and waits for its end.
type Task func() (stop func())

// A Runner runs tasks while this server leads, or always if there are no other servers. In the
// first case it owns a goroutine.
type Runner struct {
	tasks   []Task
	stops   []func() // of the running tasks
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// Start returns a Runner of tasks, which the caller closes. A nil replica means that there are no
// other servers.
func Start(r *replica.Replica, tasks ...Task) *Runner {
	c := &Runner{tasks: tasks, cancel: func() {}}
	if r == nil {
		c.begin()
		return c
	}
	var ctx context.Context
	ctx, c.cancel = context.WithCancel(context.Background())
	c.running.Go(func() { c.follow(ctx, r) })
	return c
}

func (c *Runner) follow(ctx context.Context, r *replica.Replica) {
	for ctx.Err() == nil {
		changed := r.Changed()
		switch leads := r.Leads(); {
		case leads && c.stops == nil:
			c.begin()
		case !leads:
			c.end()
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

func (c *Runner) begin() {
	for _, start := range c.tasks {
		c.stops = append(c.stops, start())
	}
}

func (c *Runner) end() {
	for _, stop := range c.stops {
		stop()
	}
	c.stops = nil
}

// Close stops all tasks and waits for them.
func (c *Runner) Close() {
	c.cancel()
	c.running.Wait()
	c.end()
}
