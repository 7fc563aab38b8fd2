package reaper

import (
	"context"
	"errors"
	"maps"
	"sync/atomic"
	"time"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// expiring are the resources whose objects have a time to live. It is safe for one writer and
// concurrent readers.
type expiring struct {
	after atomic.Pointer[map[schema.GroupResource]time.Duration]
}

// update reads the times to live from the definitions, and reports whether they changed.
func (e *expiring) update(set *resource.Set) bool {
	after := map[schema.GroupResource]time.Duration{}
	for _, d := range set.All() {
		if d.Strategy.TTL > 0 {
			after[d.GroupResource()] = d.Strategy.TTL
		}
	}
	old := e.after.Swap(&after)
	return old == nil || !maps.Equal(*old, after)
}

func (e *expiring) of(gr schema.GroupResource) time.Duration { return (*e.after.Load())[gr] }

func (e *expiring) has(gr schema.GroupResource) bool { return e.of(gr) > 0 }

// expire sets a timer for the end of an object, if it has one. It uses the wall clock only here,
// for the age of the object, because that clock may jump.
func (r *Reaper) expire(o *object.Object) {
	if ttl := r.ttls.of(o.Key.Resource); ttl > 0 && !r.opts.KeepExpired {
		r.timers.end(time.Now().Add(left(ttl, time.Since(o.Written))), o)
	}
}

// doubt is the maximum error of the wall clock that left allows for, now or when an object was
// written.
const doubt = 24 * time.Hour

// left returns the remaining time of an object from its age. An object from the future counts as
// new. An object that expired less than doubt ago, as found at a start, gets its whole time again:
// either the server was down, or a clock was wrong. etcd also renews all leases when it starts.
func left(ttl, age time.Duration) time.Duration {
	switch {
	case age < 0, ttl <= age && age < ttl+doubt:
		return ttl
	}
	return max(ttl-age, 0)
}

// atOnce is the maximum number of expired objects that are removed in one commit.
const atOnce = 256

// end removes expired objects. An object that was written since its timer was set is skipped, as
// the write has set another timer. Finalizers, admission and hooks are bypassed, as by leases of
// etcd.
func (r *Reaper) end(ctx context.Context, ended []timer) {
	var batch []journal.Entry
	flush := func() {
		r.remove(ctx, batch)
		batch = nil
	}
	seen := map[object.Key]bool{}
	for _, t := range ended {
		o, _ := r.state.Get(t.key)
		if o == nil || o.Revision != t.ends || seen[t.key] || !r.ttls.has(t.key.Resource) {
			continue
		}
		seen[t.key] = true
		if batch = append(batch, journal.Entry{Key: t.key, Prev: o.Revision}); len(batch) == atOnce {
			flush()
		}
	}
	flush()
}

// remove commits deletions in one batch. If the journal rejects the batch, or one of the objects
// has changed meanwhile, it commits them one by one.
func (r *Reaper) remove(ctx context.Context, batch []journal.Entry) {
	if len(batch) == 0 {
		return
	}
	_, err := r.state.Append(ctx, journal.Batch{Entries: batch})
	conflict := &journal.ConflictError{}
	switch {
	case err == nil, errors.Is(err, context.Canceled):
	case errors.As(err, &conflict), errors.Is(err, errors.ErrUnsupported) && len(batch) > 1: // etcd: one object of a resource in each commit
		if len(batch) > 1 {
			for _, e := range batch {
				r.remove(ctx, []journal.Entry{e})
			}
		}
	default:
		r.log.Warn("cannot remove expired objects", "objects", len(batch), "error", err)
		for _, e := range batch {
			r.timers.add(timer{at: time.Now().Add(lastRetry), key: e.Key, ends: e.Prev})
		}
	}
}
