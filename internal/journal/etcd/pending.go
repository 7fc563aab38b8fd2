package etcd

import (
	"bytes"
	"slices"
	"sync"

	"github.com/kapok-dev/kapok/internal/object"

	"go.etcd.io/etcd/api/v3/mvccpb"
)

// pending is what Append has sent and the watch has not brought: it gives the
// sink the very objects that were appended.
//
// The watch may be faster than the answer to the transaction. So an event is known
// by what it holds: who wrote these bytes under this key, in whatever transaction,
// wrote this object.
type pending struct {
	mu   sync.Mutex
	puts map[object.Key][]*put
}

type put struct {
	object *object.Object
	stored []byte
	taken  bool // the sink has the object, and it is not to be written to any more
}

func (p *pending) init() { p.puts = map[object.Key][]*put{} }

// add notes the puts of a batch.
func (p *pending) add(puts []*put) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range puts {
		p.puts[w.object.Key] = append(p.puts[w.object.Key], w)
	}
}

// remove takes the puts of a batch back, and gives those objects their revision
// that the sink has not; there is none if that is zero.
func (p *pending) remove(puts []*put, revision object.Revision) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range puts {
		key := w.object.Key
		rest := slices.DeleteFunc(p.puts[key], func(other *put) bool { return other == w })
		if p.puts[key] = rest; len(rest) == 0 {
			delete(p.puts, key)
		}
		if !w.taken && revision > 0 {
			w.object.Revision = revision
		}
	}
}

// taken says whether the sink has one of the objects.
func (p *pending) taken(puts []*put) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(puts, func(w *put) bool { return w.taken })
}

// take gives all the objects to the sink, with their revision; false if it has one.
func (p *pending) take(puts []*put, revision object.Revision) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if slices.ContainsFunc(puts, func(w *put) bool { return w.taken }) {
		return false
	}
	for _, w := range puts {
		w.taken, w.object.Revision = true, revision
	}
	return true
}

// claim returns the object that was appended with a value.
func (p *pending) claim(key object.Key, kv *mvccpb.KeyValue) (*object.Object, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.puts[key] {
		if !w.taken && bytes.Equal(w.stored, kv.Value) {
			w.taken = true
			w.object.Revision = object.Revision(kv.ModRevision)
			return w.object, true
		}
	}
	return nil, false
}
