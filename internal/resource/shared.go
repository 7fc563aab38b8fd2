package resource

import (
	"context"
	"sync"

	"github.com/kapok-dev/kapok/internal/object"
)

// shared holds the latest conversions by webhooks for watches. An event is sent to many watches at
// about the same time: one of them calls the webhook, the others wait for the result, which is then
// encoded once for all. Kubernetes converts an event once for all watches, too, and keeps the
// result for longer.
//
// The zero value is ready to use. The lock guards the maps only, and is not held during a call.
type shared struct {
	mu     sync.Mutex
	known  map[conversion]*result
	recent []conversion // oldest first
	size   int          // in bytes, of all results
}

// A conversion is identified by the write of the object and the target version. In etcd, other
// programs may write several objects at one revision.
type conversion struct {
	of       object.Key
	revision object.Revision
	to       *Version
}

type result struct {
	done   chan struct{} // closed when the rest is set
	object *object.Object
	err    error
	gaveUp bool // the client that called has left before there was a result
}

// sharedSize bounds the cached results, in bytes.
const sharedSize = 4 << 20

// convert returns a stored object in version v.
func (s *shared) convert(ctx context.Context, d *Definition, v *Version, o *object.Object) (*object.Object, error) {
	key := conversion{o.Key, o.Revision, v}
	for {
		s.mu.Lock()
		r := s.known[key]
		if r == nil {
			r = &result{done: make(chan struct{})}
			if s.known == nil {
				s.known = map[conversion]*result{}
			}
			s.known[key] = r
			s.mu.Unlock()
			return s.ask(ctx, d, key, o, r)
		}
		s.mu.Unlock()
		select {
		case <-r.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if !r.gaveUp {
			return r.object, r.err
		}
	}
}

func (s *shared) ask(ctx context.Context, d *Definition, key conversion, o *object.Object, r *result) (*object.Object, error) {
	objects, err := inVersion(ctx, d, key.to, []*object.Object{o})
	s.mu.Lock()
	defer s.mu.Unlock()
	defer close(r.done)
	if r.err = err; err != nil {
		r.gaveUp = ctx.Err() != nil
		delete(s.known, key)
		return nil, err
	}
	r.object = objects[0]
	s.recent = append(s.recent, key)
	s.size += r.object.Size()
	for s.size > sharedSize && len(s.recent) > 1 {
		oldest := s.recent[0]
		s.size -= s.known[oldest].object.Size()
		delete(s.known, oldest)
		s.recent = s.recent[1:]
	}
	return r.object, nil
}
