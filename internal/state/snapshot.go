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

// SnapshotAt returns the objects of a resource as they were at a revision: the
// newest ones with the events since then undone. It returns
// [journal.ErrCompacted] if the history does not reach back that far.
func (s *State) SnapshotAt(ctx context.Context, resource schema.GroupResource, at object.Revision) (Snapshot, error) {
	s.mu.Lock()
	t := s.mu.tables[resource]
	if t == nil { // nothing in memory; the journal may know of objects that were
		t = newTable(s.mu.since)
	}
	if at > s.mu.head {
		at = s.mu.head
	}
	snap := Snapshot{Revision: at, objects: t.objects.Copy()}
	from := at
	if t.evicted > from {
		from = t.evicted
	}
	newer := append([]Event(nil), t.history[t.after(from):]...)
	s.mu.Unlock()

	// What a key held at the revision is what its first event since then replaced.
	undone := map[object.Key]struct{}{}
	for at < from {
		older, err := s.readBack(ctx, resource, at, from, maxBatch)
		if err != nil {
			return Snapshot{}, err
		}
		snap.undo(older, undone)
		if len(older) < maxBatch {
			break
		}
		at = older[len(older)-1].Revision
	}
	snap.undo(newer, undone)
	return snap, nil
}

// undo puts back what events, oldest first, have replaced; keys that are undone
// already stay as they are.
func (s Snapshot) undo(events []Event, undone map[object.Key]struct{}) {
	for i := range events {
		e := &events[i]
		key := e.Last().Key
		if _, ok := undone[key]; ok {
			continue
		}
		undone[key] = struct{}{}
		if e.Prev != nil {
			s.objects.Set(item{e.Prev, e.Prev.Meta.Labels.Sketch()})
		} else {
			s.objects.Delete(item{Object: e.Object})
		}
	}
}

// Len is the number of objects in the snapshot.
func (s Snapshot) Len() int {
	if s.objects == nil {
		return 0
	}
	return s.objects.Len()
}

// Get returns the object of a namespace and name, nil if there is none.
func (s Snapshot) Get(namespace, name string) *object.Object {
	if s.objects == nil {
		return nil
	}
	found, _ := s.objects.Get(at(namespace, name))
	return found.Object
}

// From walks the objects of a namespace, or of all with namespace "", in the
// order of their keys, starting with the first whose key is not below (fromNamespace, fromName).
func (s Snapshot) From(namespace, fromNamespace, fromName string) iter.Seq[*object.Object] {
	return func(yield func(*object.Object) bool) {
		for o := range s.Sift(nil, namespace, fromNamespace, fromName) {
			if !yield(o) {
				return
			}
		}
	}
}

// Sift is From that also says whether the sieve lets an object pass. Those that it holds back are not looked at.
func (s Snapshot) Sift(sieve object.Sieve, namespace, fromNamespace, fromName string) iter.Seq2[*object.Object, bool] {
	return func(yield func(*object.Object, bool) bool) {
		if s.objects == nil {
			return
		}
		var end *object.Object // the first that is of another namespace
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

// All walks the objects of a namespace, or of all with namespace "".
func (s Snapshot) All(namespace string) iter.Seq[*object.Object] {
	return s.From(namespace, namespace, "")
}
