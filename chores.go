package kapok

import (
	"context"
	"sync"

	"github.com/kapok-dev/kapok/internal/replica"
)

// A chore is what one of the servers on a journal does for all. It is begun, which
// returns what ends it and waits for its end.
type chore func() (end func())

// chores run while this server leads; always, if it is alone. They own a goroutine
// where it is not.
type chores struct {
	all     []chore
	ends    []func() // of those that run
	stop    context.CancelFunc
	running sync.WaitGroup
}

func startChores(r *replica.Replica, all ...chore) *chores {
	c := &chores{all: all, stop: func() {}}
	if r == nil {
		c.begin()
		return c
	}
	var ctx context.Context
	ctx, c.stop = context.WithCancel(context.Background())
	c.running.Go(func() { c.follow(ctx, r) })
	return c
}

func (c *chores) follow(ctx context.Context, r *replica.Replica) {
	for ctx.Err() == nil {
		changed := r.Changed()
		switch leads := r.Leads(); {
		case leads && c.ends == nil:
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

func (c *chores) begin() {
	for _, begin := range c.all {
		c.ends = append(c.ends, begin())
	}
}

func (c *chores) end() {
	for _, end := range c.ends {
		end()
	}
	c.ends = nil
}

// Close ends all chores.
func (c *chores) Close() {
	c.stop()
	c.running.Wait()
	c.end()
}
