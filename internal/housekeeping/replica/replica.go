// Package replica coordinates servers that share a journal: it tracks which servers are running and
// which definitions each of them serves, and elects the leader, which does the work that one server
// does for all.
//
// Its state is in Leases (coordination.k8s.io) of the namespace kube-system, which the servers
// write through their own store. Each server has a Lease under its name, with an annotation for
// what it serves; one more names the leader:
//
//	kapok-<name>         a server, which runs as long as it renews this
//	kapok-controllers    the leader, in holderIdentity
//
// # Promises
//
//   - Two servers do not lead at the same time as long as their clocks run equally fast: a leader
//     stops 5 seconds before another server may take its place. Writes of a leader have
//     preconditions nevertheless.
//   - A server counts as running until its Lease has not changed for 15 seconds of the observer's
//     own time; clocks need not agree. A server that shuts down removes its Lease, and counts as
//     gone at once.
//
// # Goroutines and locks
//
// A Replica owns one goroutine, which ends with Close. One lock guards the state that its methods
// read; all methods are safe for concurrent use.
package replica

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"
)

const (
	// duration is the time for which a Lease is valid after a renewal.
	duration = 15 * time.Second
	// trust is the time for which a leader leads after its last successful renewal.
	trust = 10 * time.Second
	// renewal is the interval of renewals; again is the interval of retries.
	renewal = 5 * time.Second
	again   = time.Second
	// forgotten is the age at which the Lease of a server that is gone is removed.
	forgotten = 4 * duration
)

// A Replica is this server's membership among the servers of a journal. [Join] creates it.
type Replica struct {
	name   string
	leases *leases
	log    *slog.Logger

	stop    context.CancelFunc
	running sync.WaitGroup
	poke    chan struct{} // has a capacity of one

	// The fields below belong to the goroutine.
	cursor  *state.Cursor
	failing bool
	alive   int       // valid Leases, when last counted
	renew   time.Time // when the renewal of this server's Leases is due
	said    object.Revision

	mu struct {
		sync.Mutex
		serves  object.Revision
		leads   time.Time // until when this server leads
		leading bool      // the last reported state
		peers   map[string]peer
		changed chan struct{} // closed when any of the above changes
	}
}

// A peer is the last known state of a Lease.
type peer struct {
	revision object.Revision // of the Lease
	seen     time.Time       // when that revision was observed
	holder   string          // of the Lease of the leader
	serves   object.Revision // of the Lease of a server
}

func (p peer) alive(now time.Time) bool { return now.Sub(p.seen) < duration }

// Join registers this server under a unique name, and returns the revision from which on the other
// servers know it. Until the first call of Serves it serves no definitions. Cancelling ctx has no
// effect after Join returns; Close ends the membership.
func Join(ctx context.Context, store *resource.Store, name string, log *slog.Logger) (*Replica, object.Revision, error) {
	leases, err := newLeases(store, name)
	if err != nil {
		return nil, 0, err
	}
	r := &Replica{name: name, leases: leases, log: log, poke: make(chan struct{}, 1)}
	r.mu.peers = map[string]peer{}
	r.mu.changed = make(chan struct{})
	known, err := leases.renew(ctx, 0)
	if err != nil {
		return nil, 0, err
	}
	r.renew = time.Now().Add(renewal)
	ctx, r.stop = context.WithCancel(context.WithoutCancel(ctx))
	r.follow()
	r.running.Go(func() { r.run(ctx) })
	return r, known, nil
}

// Close ends the goroutine and waits for it, releases the lead and removes the Lease of this
// server. It takes at most the time of one retry.
func (r *Replica) Close() {
	r.stop()
	r.running.Wait()
	r.lead(time.Time{})
	ctx, cancel := context.WithTimeout(context.Background(), again)
	defer cancel()
	r.leases.leave(ctx)
}

// Leads reports whether this server is the leader.
func (r *Replica) Leads() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Now().Before(r.mu.leads)
}

// Serves reports to the other servers that this server serves all definitions as of a revision. It
// does not block; revisions never decrease.
func (r *Replica) Serves(revision object.Revision) {
	r.mu.Lock()
	r.mu.serves = max(r.mu.serves, revision)
	r.mu.Unlock()
	select {
	case r.poke <- struct{}{}:
	default:
	}
}

// AllServe reports whether all other running servers serve the definitions as of a revision.
func (r *Replica) AllServe(revision object.Revision) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, p := range r.mu.peers {
		if name != leaderName && name != memberPrefix+r.name && p.alive(time.Now()) && p.serves < revision {
			return false
		}
	}
	return true
}

// Changed returns a channel that is closed when the result of Leads or AllServe may have changed.
func (r *Replica) Changed() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.changed
}

func (r *Replica) run(ctx context.Context) {
	for ctx.Err() == nil {
		wait := r.observe(ctx)
		next := r.act(ctx)
		timer := time.NewTimer(time.Until(next))
		select {
		case <-wait:
		case <-timer.C:
		case <-r.poke:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// follow reads all Leases, and opens a cursor on their changes.
func (r *Replica) follow() {
	snapshot, cursor := r.leases.snapshot()
	r.cursor = cursor
	gone := map[string]bool{}
	r.mu.Lock()
	for name := range r.mu.peers {
		gone[name] = true
	}
	r.mu.Unlock()
	for _, o := range snapshot {
		delete(gone, o.Key.Name)
		r.learn(o.Key.Name, o)
	}
	for name := range gone {
		r.learn(name, nil)
	}
}

// observe processes the changes of Leases, and returns a channel that is closed at the next one.
func (r *Replica) observe(ctx context.Context) <-chan struct{} {
	for ctx.Err() == nil {
		events, wait, err := r.cursor.Next(ctx)
		if err != nil {
			timer := time.NewTimer(again)
			select {
			case <-timer.C:
			case <-ctx.Done():
			}
			timer.Stop()
			r.follow() // the cursor fell behind the bounded history
			continue
		}
		if wait != nil {
			return wait
		}
		for i := range events {
			if last := events[i].Last(); r.leases.ours(last) {
				r.learn(last.Key.Name, events[i].Object)
			}
		}
	}
	return nil
}

// learn stores the state of a Lease; o is nil if it is deleted.
func (r *Replica) learn(name string, o *object.Object) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if o == nil {
		delete(r.mu.peers, name)
	} else if r.mu.peers[name].revision != o.Revision {
		p := peer{revision: o.Revision, seen: time.Now()}
		p.holder, p.serves = r.leases.read(o)
		r.mu.peers[name] = p
	}
	r.tellLocked()
}

func (r *Replica) tellLocked() {
	close(r.mu.changed)
	r.mu.changed = make(chan struct{})
}

// act renews the Leases of this server, takes the lead if it is free, and returns when to call it
// again.
func (r *Replica) act(ctx context.Context) time.Time {
	now := time.Now()
	r.mu.Lock()
	serves := r.mu.serves
	leader, known := r.mu.peers[leaderName]
	others := len(r.mu.peers) > 2 // more than this server and the leader's Lease
	r.mu.Unlock()

	due := !now.Before(r.renew)
	if due || others && serves > r.said {
		if _, err := r.leases.renew(ctx, serves); err != nil {
			return r.failed(ctx, "cannot renew the lease of this server", err)
		}
		r.said = serves
	}
	free := !known || leader.holder == "" || !leader.alive(now)
	if mine := leader.holder == r.name; mine && due || mine && !r.Leads() || free {
		switch err := r.leases.take(ctx, leader.revision, r.name); {
		case err == nil:
			r.observe(ctx) // changes of other servers during the write
			r.lead(now.Add(trust))
		case !isTaken(err):
			return r.failed(ctx, "cannot renew the lease of the leader", err)
		}
	} else if !mine {
		r.lead(time.Time{})
	}
	if due {
		if r.failing {
			r.failing = false
			r.log.Info("leases can be renewed again")
		}
		r.renew = now.Add(renewal)
		r.forget(ctx, now)
	}
	return r.nextEnd(now)
}

// nextEnd returns when to act without a change: to renew, or because a Lease expires. It notifies
// waiters if one has expired.
func (r *Replica) nextEnd(now time.Time) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	next, alive := r.renew, 0
	for _, p := range r.mu.peers {
		if !p.alive(now) {
			continue
		}
		alive++
		if end := p.seen.Add(duration); end.Before(next) {
			next = end
		}
	}
	if alive < r.alive {
		r.tellLocked()
	}
	r.alive = alive
	return next
}

// failed schedules a retry. A server that cannot renew its Lease soon stops leading.
func (r *Replica) failed(ctx context.Context, what string, err error) time.Time {
	if ctx.Err() == nil && !r.failing { // logged once, as it can last long
		r.failing = true
		r.log.Warn(what, "error", err)
	}
	if !r.Leads() {
		r.lead(time.Time{})
	}
	return time.Now().Add(again)
}

func (r *Replica) lead(until time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	lapsed := r.mu.leading && !now.Before(r.mu.leads) // waiters may have seen the lapse
	r.mu.leads = until
	if leading := now.Before(until); lapsed || leading != r.mu.leading {
		r.mu.leading = leading
		r.log.Info("leadership changed", "server", r.name, "leads", leading)
		r.tellLocked()
	}
}

// forget removes the Leases of servers that have been gone for a while. Only the leader does so.
func (r *Replica) forget(ctx context.Context, now time.Time) {
	if !r.Leads() {
		return
	}
	var gone []string
	r.mu.Lock()
	for name, p := range r.mu.peers {
		if name != leaderName && now.Sub(p.seen) > forgotten {
			gone = append(gone, name)
		}
	}
	r.mu.Unlock()
	for _, name := range gone {
		if err := r.leases.remove(ctx, name); err != nil {
			r.log.Warn("cannot remove the lease of a server that is gone", "lease", name, "error", err)
		}
	}
}
