package state

import (
	"context"
	"iter"

	"github.com/kapok-dev/kapok/internal/object"

	"github.com/tidwall/btree"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A Snapshot is the objects of one resource at one revision. It never changes.
type Snapshot struct {
	Revision object.Revision
	objects  *btree.BTreeG[item] // nil if empty
}

// Snapshot returns the newest objects of a resource.
func (s *State) Snapshot(resource schema.GroupResource) Snapshot {
	s.mu.Lock() // taking a copy marks the tree's nodes as shared
	defer s.mu.Unlock()
	snap := Snapshot{Revision: s.mu.head}
	if t := s.mu.tables[resource]; t != nil {
		snap.objects = t.objects.Copy()
	}
	return snap
}

// SnapshotAt returns the objects of a resource at an older revision: the newest objects with all
// later events reverted. It returns [journal.ErrCompacted] if the history does not reach back that
// far, and the context's error if the context ends while history is read.
func (s *State) SnapshotAt(ctx context.Context, resource schema.GroupResource, at object.Revision) (Snapshot, error) {
	if oldest := s.oldest(resource); at < oldest {
		return Snapshot{}, &CompactedError{Wanted: at, Oldest: oldest}
	}
	s.mu.Lock()
	t := s.mu.tables[resource]
	at = min(at, s.mu.head)
	if t == nil && at < s.mu.since || t != nil && at < t.evicted {
		s.mu.Unlock()
		return s.rebuild(ctx, resource, at)
	}
	if t == nil {
		s.mu.Unlock()
		return Snapshot{Revision: at}, nil
	}
	snap := Snapshot{Revision: at, objects: t.objects.Copy()}
	newer := append([]Event(nil), t.history[t.after(at):]...)
	s.mu.Unlock()

	snap.undo(newer, map[object.Key]struct{}{})
	return snap, nil
}

// undo reverts events, given oldest first: each key gets the object that its first event replaced.
// Keys in undone are left alone.
func (s Snapshot) undo(events []Event, undone map[object.Key]struct{}) {
	for i := range events {
		e := &events[i]
		key := e.Last().Key
		if _, ok := undone[key]; ok {
			continue
		}
		undone[key] = struct{}{}
		s.put(key, e.Prev)
	}
}

// put sets the object of a key; nil removes it.
func (s Snapshot) put(key object.Key, o *object.Object) {
	if o != nil {
		s.objects.Set(item{o, o.Meta.Labels.Sketch()})
	} else {
		s.objects.Delete(at(key.Namespace, key.Name))
	}
}

// Len is the number of objects in the snapshot.
func (s Snapshot) Len() int {
	if s.objects == nil {
		return 0
	}
	return s.objects.Len()
}

// Get returns the object with a namespace and name, or nil if there is none.
func (s Snapshot) Get(namespace, name string) *object.Object {
	if s.objects == nil {
		return nil
	}
	found, _ := s.objects.Get(at(namespace, name))
	return found.Object
}

// From iterates over the objects of a namespace, or of all namespaces with "", in key order,
// starting with the first key that is not below (fromNamespace, fromName).
func (s Snapshot) From(namespace, fromNamespace, fromName string) iter.Seq[*object.Object] {
	return func(yield func(*object.Object) bool) {
		for o := range s.Sift(nil, namespace, fromNamespace, fromName) {
			if !yield(o) {
				return
			}
		}
	}
}

// Sift is From with a sieve: it also yields whether the sieve passes each object, without access to
// the objects that it excludes.
func (s Snapshot) Sift(sieve object.Sieve, namespace, fromNamespace, fromName string) iter.Seq2[*object.Object, bool] {
	return func(yield func(*object.Object, bool) bool) {
		if s.objects == nil {
			return
		}
		var end *object.Object // the first object of the next namespace
		if namespace != "" {
			switch {
			case fromNamespace < namespace:
				fromNamespace, fromName = namespace, ""
			case fromNamespace > namespace:
				return
			}
			s.objects.Ascend(at(namespace+"\x00", ""), func(i item) bool {
				end = i.Object
				return false
			})
		}
		s.objects.Ascend(at(fromNamespace, fromName), func(i item) bool {
			return i.Object != end && yield(i.Object, sieve.Passes(i.labels))
		})
	}
}

// All iterates over the objects of a namespace, or of all namespaces with "".
func (s Snapshot) All(namespace string) iter.Seq[*object.Object] {
	return s.From(namespace, namespace, "")
}
