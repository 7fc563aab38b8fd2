package cache

import (
	"maps"
	"sync"

	"github.com/kapok-dev/kapok/client"
)

// recentObjects is the number of decoded objects that a kind keeps for shared reads.
const recentObjects = 4096

// recent keeps the objects that were decoded last, so that shared reads of the same objects, one
// after the other, decode each of them once. The zero value is ready to use, and safe for
// concurrent use.
type recent struct {
	mu      sync.Mutex
	objects map[*entry]client.Object
	order   []*entry // a ring, in the order in which they were decoded
	next    int      // the oldest in the ring, once it is full
}

func (r *recent) get(e *entry) client.Object {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.objects[e]
}

// put adds an object, and returns the one that is kept, as another goroutine may have been faster,
// and the one that is not kept any more, if any.
func (r *recent) put(e *entry, obj client.Object) (kept client.Object, dropped map[*entry]client.Object) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if kept := r.objects[e]; kept != nil {
		return kept, nil
	}
	if r.objects == nil {
		r.objects = map[*entry]client.Object{}
	}
	r.objects[e] = obj
	if len(r.order) < recentObjects {
		r.order = append(r.order, e)
		return obj, nil
	}
	oldest := r.order[r.next]
	dropped = map[*entry]client.Object{oldest: r.objects[oldest]}
	delete(r.objects, oldest)
	r.order[r.next] = e
	r.next = (r.next + 1) % recentObjects
	return obj, dropped
}

// all returns the objects that are kept.
func (r *recent) all() map[*entry]client.Object {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.objects)
}
