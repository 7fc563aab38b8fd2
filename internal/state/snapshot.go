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
	objects  *btree.BTreeG[*object.Object] // nil if empty
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
			s.objects.Set(e.Prev)
		} else {
			s.objects.Delete(e.Object)
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
	o, _ := s.objects.Get(&object.Object{Key: object.Key{Namespace: namespace, Name: name}})
	return o
}

// From walks the objects of a namespace, or of all with namespace "", in the
// order of their keys, starting with the first whose key is not below (fromNamespace, fromName).
func (s Snapshot) From(namespace, fromNamespace, fromName string) iter.Seq[*object.Object] {
	return func(yield func(*object.Object) bool) {
		if s.objects == nil {
			return
		}
		if namespace != "" && fromNamespace < namespace {
			fromNamespace, fromName = namespace, ""
		}
		pivot := &object.Object{Key: object.Key{Namespace: fromNamespace, Name: fromName}}
		s.objects.Ascend(pivot, func(o *object.Object) bool {
			if namespace != "" && o.Key.Namespace != namespace {
				return false
			}
			return yield(o)
		})
	}
}

// All walks the objects of a namespace, or of all with namespace "".
func (s Snapshot) All(namespace string) iter.Seq[*object.Object] {
	return s.From(namespace, namespace, "")
}
