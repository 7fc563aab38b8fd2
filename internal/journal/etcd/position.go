package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/kapok-dev/kapok/internal/object"
)

// position is how far the sink has come, and who waits for that.
type position struct {
	asked chan struct{} // has a signal when somebody has come who asks

	mu struct {
		sync.Mutex
		at      object.Revision
		waiting []*waiter
	}
}

type waiter struct {
	revision object.Revision
	asks     bool // no event may bring the revision: the watch is to be asked for it
	done     chan struct{}
}

func (p *position) init() { p.asked = make(chan struct{}, 1) }

// now returns the revision up to which the sink holds everything.
func (p *position) now() object.Revision {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.at
}

// advance says that the sink holds everything up to a revision.
func (p *position) advance(to object.Revision) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if to <= p.mu.at {
		return
	}
	p.mu.at = to
	p.mu.waiting = slices.DeleteFunc(p.mu.waiting, func(w *waiter) bool {
		if w.revision > to {
			return false
		}
		close(w.done)
		return true
	})
}

// wait returns a waiter for a revision; nil if the sink is there.
func (p *position) wait(revision object.Revision, asks bool) *waiter {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.at >= revision {
		return nil
	}
	w := &waiter{revision: revision, asks: asks, done: make(chan struct{})}
	p.mu.waiting = append(p.mu.waiting, w)
	if asks {
		select {
		case p.asked <- struct{}{}:
		default:
		}
	}
	return w
}

// leave says that nobody waits with w any more.
func (p *position) leave(w *waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.waiting = slices.DeleteFunc(p.mu.waiting, func(other *waiter) bool { return other == w })
}

// wanted says whether somebody waits who asks.
func (p *position) wanted() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.mu.waiting, func(w *waiter) bool { return w.asks })
}

// await returns nil once the sink holds everything up to a revision.
func (j *Journal) await(ctx context.Context, revision object.Revision, asks bool) error {
	w := j.position.wait(revision, asks)
	if w == nil {
		return nil
	}
	select {
	case <-w.done:
		return nil
	case <-j.links.isDown():
	case <-ctx.Done():
	}
	j.position.leave(w)
	if err := j.links.err(); err != nil {
		return err
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	return fmt.Errorf("etcd is at revision %d, its watch at %d", revision, j.position.now())
}

// settled is position.now once whoever is feeding the sink has said how far it has
// come: what can be seen in the sink is below it.
func (j *Journal) settled() object.Revision {
	j.follower.feeding.Lock()
	defer j.follower.feeding.Unlock()
	return j.position.now()
}
