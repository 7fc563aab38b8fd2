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

// expiring are the resources whose objects end by themselves. Readers and the one who updates may be different
// goroutines.
type expiring struct {
	after atomic.Pointer[map[schema.GroupResource]time.Duration]
}

// update takes over what definitions say, and tells whether that is anything new.
func (e *expiring) update(set *resource.Set) bool {
	after := map[schema.GroupResource]time.Duration{}
	for _, d := range set.All() {
		if d.Hooks.TTL > 0 {
			after[d.GroupResource()] = d.Hooks.TTL
		}
	}
	old := e.after.Swap(&after)
	return old == nil || !maps.Equal(*old, after)
}

func (e *expiring) of(gr schema.GroupResource) time.Duration { return (*e.after.Load())[gr] }

func (e *expiring) has(gr schema.GroupResource) bool { return e.of(gr) > 0 }

// expire sets a timer for the end of an object, if it has one.
func (r *Reaper) expire(o *object.Object) {
	if ttl := r.ttls.of(o.Key.Resource); ttl > 0 {
		r.timers.add(o.Written.Add(ttl), o.Key, true)
	}
}

// atOnce is how many objects that have ended are removed in one commit.
const atOnce = 256

// end removes objects whose time is up; a write since then has given them more. They go without further ceremony, as
// keys with a lease do in etcd.
func (r *Reaper) end(ctx context.Context, keys []object.Key) {
	var batch []journal.Entry
	flush := func() {
		r.remove(ctx, batch)
		batch = nil
	}
	seen := map[object.Key]bool{}
	for _, key := range keys {
		o, _ := r.state.Get(key)
		ttl := r.ttls.of(key.Resource)
		if o == nil || ttl == 0 || seen[key] || time.Until(o.Written.Add(ttl)) > 0 { // a later timer knows of the later end
			continue
		}
		seen[key] = true
		if batch = append(batch, journal.Entry{Key: key, Prev: o.Revision}); len(batch) == atOnce {
			flush()
		}
	}
	flush()
}

// remove commits deletions, all at once. If the journal does not take that, or one of the objects has changed meanwhile, they
// go one by one.
func (r *Reaper) remove(ctx context.Context, batch []journal.Entry) {
	if len(batch) == 0 {
		return
	}
	_, err := r.state.Append(ctx, journal.Batch{Entries: batch})
	conflict := &journal.ConflictError{}
	switch {
	case err == nil, errors.Is(err, context.Canceled):
	case errors.As(err, &conflict), errors.Is(err, errors.ErrUnsupported) && len(batch) > 1: // etcd: one object of a resource at a time
		if len(batch) > 1 {
			for _, e := range batch {
				r.remove(ctx, []journal.Entry{e})
			}
		}
	default:
		r.log.Warn("cannot remove what has ended", "objects", len(batch), "error", err)
		for _, e := range batch {
			r.timers.add(time.Now().Add(lastRetry), e.Key, true)
		}
	}
}
