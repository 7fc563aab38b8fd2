// Package replica is what servers that share a journal know of each other: which
// of them are there, what each of them serves, and which one does what only one
// should do.
//
// All of it is in Leases (coordination.k8s.io) of the namespace kube-system, which
// the servers write through their own store. Each has one under its name, with
// what it serves as an annotation; one more names the leader:
//
//	kapok-<name>         a server; it is there as long as it renews this
//	kapok-controllers    the leader, in holderIdentity
//
// # Promises
//
//   - Two servers do not lead at once as long as their clocks run equally fast: a
//     leader stops to think so 5 seconds before the others may take its place.
//     What a leader writes is guarded by preconditions all the same.
//   - A server counts as there until its Lease has not changed for 15 seconds of
//     the observer's own time; clocks need not agree. One that stops in good order
//     is gone at once.
//
// A Replica owns one goroutine, which ends with Close.
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
	// duration is how long a Lease holds that is not renewed.
	duration = 15 * time.Second
	// trust is how long a leader believes in a Lease that it cannot renew.
	trust = 10 * time.Second
	// renewal is the time between two renewals, again that after one that failed.
	renewal = 5 * time.Second
	again   = time.Second
	// forgotten is when the Lease of a server that is gone is removed.
	forgotten = 4 * duration
)

// A Replica is this server among the others. Make one with [Join].
type Replica struct {
	name   string
	leases *leases
	log    *slog.Logger

	stop    context.CancelFunc
	running sync.WaitGroup
	poke    chan struct{} // has room for one

	// Of the goroutine.
	cursor  *state.Cursor
	failing bool
	alive   int       // Leases, when last looked at
	renew   time.Time // when the own Leases are due
	said    object.Revision

	mu struct {
		sync.Mutex
		serves  object.Revision
		leads   time.Time // until then
		leading bool      // what was told last
		peers   map[string]peer
		changed chan struct{} // closed when any of the above changes
	}
}

// peer is what is known of a Lease.
type peer struct {
	revision object.Revision // of the Lease
	seen     time.Time       // when it got that
	holder   string          // of the Lease of the leader
	serves   object.Revision // of the Lease of a server
}

func (p peer) alive(now time.Time) bool { return now.Sub(p.seen) < duration }

// Join makes this server known under a name that no other has, and returns the
// revision from which on the others know of it. Until it says more, it serves
// nothing.
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

// Close lets go of what this server holds, and waits for the goroutine.
func (r *Replica) Close() {
	r.stop()
	r.running.Wait()
	r.lead(time.Time{})
	ctx, cancel := context.WithTimeout(context.Background(), again)
	defer cancel()
	r.leases.leave(ctx)
}

// Leads says whether this server does what only one should do.
func (r *Replica) Leads() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Now().Before(r.mu.leads)
}

// Serves tells the others that this server serves all definitions as they were at
// a revision.
func (r *Replica) Serves(revision object.Revision) {
	r.mu.Lock()
	r.mu.serves = max(r.mu.serves, revision)
	r.mu.Unlock()
	select {
	case r.poke <- struct{}{}:
	default:
	}
}

// AllServe says whether all others that are there serve the definitions as they
// were at a revision.
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

// Changed returns a channel that is closed when Leads or AllServe may answer
// otherwise than now.
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

// follow reads all Leases, and begins to follow them.
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

// observe takes in what has happened to the Leases, and returns a channel that is
// closed when there is more.
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
			r.follow() // too far behind the history, most likely
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

// learn notes what a Lease says now; o is nil if it is gone.
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

// act renews what this server holds, takes the lead if nobody has it, and returns
// when to do so again.
func (r *Replica) act(ctx context.Context) time.Time {
	now := time.Now()
	r.mu.Lock()
	serves := r.mu.serves
	leader, anybody := r.mu.peers[leaderName]
	others := len(r.mu.peers) > 2 // more than this server and the leader's Lease
	r.mu.Unlock()

	due := !now.Before(r.renew)
	if due || others && serves > r.said {
		if _, err := r.leases.renew(ctx, serves); err != nil {
			return r.failed(ctx, "cannot renew the lease of this server", err)
		}
		r.said = serves
	}
	free := !anybody || leader.holder == "" || !leader.alive(now)
	if mine := leader.holder == r.name; mine && due || mine && !r.Leads() || free {
		switch err := r.leases.take(ctx, leader.revision, r.name); {
		case err == nil:
			r.observe(ctx) // what peers have said while this server slept
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

// nextEnd returns when there is something to do even if nobody says anything: to
// renew, or to see that a Lease has ended. It tells if one has.
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

// failed puts off what has failed. Who cannot renew does not lead for long.
func (r *Replica) failed(ctx context.Context, what string, err error) time.Time {
	if ctx.Err() == nil && !r.failing { // once: it may take long
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
	lapsed := r.mu.leading && !now.Before(r.mu.leads) // and somebody may have noticed
	r.mu.leads = until
	if leading := now.Before(until); lapsed || leading != r.mu.leading {
		r.mu.leading = leading
		r.log.Info("leads what one server does for all", "server", r.name, "leads", leading)
		r.tellLocked()
	}
}

// forget removes the Leases of servers that have not been there for long. That
// is the leader's to do.
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
