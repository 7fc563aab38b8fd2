package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/kapok-dev/kapok/internal/object"
)

// position is the revision that the sink has reached, and the waiters for later ones.
type position struct {
	asked chan struct{} // receives a signal when a waiter arrives that asks

	mu struct {
		sync.Mutex
		at      object.Revision
		waiting []*waiter
	}
}

type waiter struct {
	revision object.Revision
	asks     bool // no event may deliver the revision: a progress notification must be requested
	done     chan struct{}
}

func (p *position) init() { p.asked = make(chan struct{}, 1) }

// now returns the revision up to which the sink includes everything.
func (p *position) now() object.Revision {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.at
}

// advance records that the sink includes everything up to a revision.
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

// wait returns a waiter for a revision, or nil if the sink has reached it.
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

// leave removes a waiter.
func (p *position) leave(w *waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.waiting = slices.DeleteFunc(p.mu.waiting, func(other *waiter) bool { return other == w })
}

// wanted reports whether a waiter that asks is waiting.
func (p *position) wanted() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.mu.waiting, func(w *waiter) bool { return w.asks })
}

// await returns nil once the sink includes everything up to a revision.
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

// settled returns position.now after any running call that feeds the sink has recorded its
// progress: everything visible in the sink is at or below it.
func (j *Journal) settled() object.Revision {
	j.follower.feeding.Lock()
	defer j.follower.feeding.Unlock()
	return j.position.now()
}
