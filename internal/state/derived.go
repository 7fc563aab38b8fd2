package state

import (
	"iter"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/kapok-dev/kapok/internal/object"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A Derived is a value that is computed from the objects of some resources: an index, compiled
// rules. Create one with [Derive].
//
// [Derived.Load] returns the value for the state at the time of the call: it includes every write
// that was applied before. While the resources do not change, a Load costs an atomic load for each
// of them. The first Load after changes folds all of them into the value in one step; concurrent
// calls wait for that step. The cost of the step depends on the number of changes, not on the
// number of objects. Only if the history of changes does not reach back to the last step, fold gets
// all objects: at the first Load, and after the journal replaced objects without history (a replica
// on etcd that fell behind). Later steps never change a value that was returned, provided that fold
// does not.
type Derived[T any] struct {
	state     *State
	resources []schema.GroupResource
	tables    []*table // of the resources
	fold      func(last T, c *Changes) T
	current   atomic.Pointer[derived[T]]
	folding   sync.Mutex // held during a step; before the State's lock
}

// derived is a value and the state that it was computed from. It is immutable.
type derived[T any] struct {
	value T
	at    object.Revision
	marks []uint64 // of the resources
}

// Derive returns a value that fold computes from the objects of some resources. fold gets the last
// value and the changes since then, and returns the next value. It must not modify the last value,
// which readers may still use. It is called by one goroutine at a time, without a lock of the
// State, and must not load the Derived itself.
func Derive[T any](s *State, fold func(last T, c *Changes) T, resources ...schema.GroupResource) *Derived[T] {
	d := &Derived[T]{state: s, resources: resources, fold: fold}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, gr := range resources {
		d.tables = append(d.tables, s.tableLocked(gr))
	}
	return d
}

// Load returns the value for the newest visible state.
func (d *Derived[T]) Load() T {
	if now := d.current.Load(); d.fresh(now) {
		return now.value
	}
	d.folding.Lock()
	defer d.folding.Unlock()
	last := d.current.Load()
	if d.fresh(last) {
		return last.value
	}
	next, changes := &derived[T]{}, (*Changes)(nil)
	if last != nil {
		next.value = last.value
		next.at, next.marks, changes = d.state.changesSince(last.at, last.marks, d.resources, d.tables)
	}
	if changes == nil {
		var none T
		next.value = none
		next.at, next.marks, changes = d.state.everything(d.resources, d.tables)
	}
	next.value = d.fold(next.value, changes)
	d.current.Store(next)
	return next.value
}

func (d *Derived[T]) fresh(v *derived[T]) bool {
	if v == nil {
		return false
	}
	for i, t := range d.tables {
		if t.mark.Load() != v.marks[i] {
			return false
		}
	}
	return true
}

// Changes are the differences between two states of some resources.
type Changes struct {
	// Complete means that the changes are all existing objects, and that the last value is the zero
	// value.
	Complete bool
	// Err is not nil while an object of one of the resources cannot be read; see
	// [State.AllReadable].
	Err error

	snapshots []Snapshot // of all resources, if Complete
	events    []Event    // otherwise, by resource and revision
}

// Objects yields each changed key once, with the object that it holds now, or nil if that was
// deleted. Keys are ordered by resource, in the order of the arguments of [Derive].
func (c *Changes) Objects() iter.Seq2[object.Key, *object.Object] {
	return func(yield func(object.Key, *object.Object) bool) {
		for _, s := range c.snapshots {
			for o := range s.All("") {
				if !yield(o.Key, o) {
					return
				}
			}
		}
		for i := range c.events {
			if e := &c.events[i]; !yield(e.Last().Key, e.Object) {
				return
			}
		}
	}
}

// changesSince returns the events of some resources after a revision at which they had the given
// marks. It returns false if the history in memory is incomplete: a mark counts all changes, so the
// history is complete if it has as many events.
func (s *State) changesSince(at object.Revision, marks []uint64, resources []schema.GroupResource, tables []*table) (object.Revision, []uint64, *Changes) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	c, now := &Changes{}, make([]uint64, len(tables))
	for i, t := range tables {
		now[i] = t.mark.Load()
		if now[i] == marks[i] {
			continue
		}
		news := t.history[t.after(at):]
		if uint64(len(news)) != now[i]-marks[i] {
			return 0, nil, nil
		}
		c.events = append(c.events, news...)
	}
	c.events = latest(c.events)
	c.Err = s.errLocked(resources)
	return s.mu.head, now, c
}

// everything returns all objects of some resources, at one revision.
func (s *State) everything(resources []schema.GroupResource, tables []*table) (object.Revision, []uint64, *Changes) {
	s.mu.Lock() // taking a copy marks the tree's nodes as shared
	defer s.mu.Unlock()
	c, now := &Changes{Complete: true, Err: s.errLocked(resources)}, make([]uint64, len(tables))
	for i, t := range tables {
		now[i] = t.mark.Load()
		c.snapshots = append(c.snapshots, Snapshot{Revision: s.mu.head, objects: t.objects.Copy()})
	}
	return s.mu.head, now, c
}

func (s *State) errLocked(resources []schema.GroupResource) error {
	for _, gr := range resources {
		if err := s.allReadableLocked(gr); err != nil {
			return err
		}
	}
	return nil
}

// latest keeps the last event of each key, in place.
func latest(events []Event) []Event {
	if len(events) < 2 {
		return events
	}
	seen := make(map[object.Key]bool, len(events))
	kept := len(events)
	for i := len(events) - 1; i >= 0; i-- {
		if key := events[i].Last().Key; !seen[key] {
			seen[key] = true
			kept--
			events[kept] = events[i]
		}
	}
	return slices.Clip(events[kept:])
}
