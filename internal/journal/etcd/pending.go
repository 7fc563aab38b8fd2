package etcd

import (
	"bytes"
	"slices"
	"sync"

	"github.com/kapok-dev/kapok/internal/object"

	"go.etcd.io/etcd/api/v3/mvccpb"
)

// pending holds the objects that Append has sent and the watch has not delivered yet, so that the
// sink gets the very objects that were appended.
//
// The watch may be faster than the response to the transaction. An event is therefore matched by
// content: the same bytes under the same key are the same object, whichever transaction wrote them.
type pending struct {
	mu   sync.Mutex
	puts map[object.Key][]*put
}

type put struct {
	object *object.Object
	stored []byte
	taken  bool // the sink has the object, so it must not be modified any more
}

func (p *pending) init() { p.puts = map[object.Key][]*put{} }

// add records the puts of a batch.
func (p *pending) add(puts []*put) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range puts {
		p.puts[w.object.Key] = append(p.puts[w.object.Key], w)
	}
}

// remove removes the puts of a batch, and sets the revision of the objects that the sink does not
// have; zero sets none.
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

// taken reports whether the sink has one of the objects.
func (p *pending) taken(puts []*put) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(puts, func(w *put) bool { return w.taken })
}

// take marks all the objects as taken by the sink and sets their revision. It returns false if the
// sink already has one of them.
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

// claim returns the object that was appended with this value, if any.
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
