package snapshot

import (
	"iter"
	"slices"

	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/state"
)

// Of returns the current objects of a state in the order of the format, and their revision. Later
// writes do not affect them.
func Of(st *state.State) (object.Revision, iter.Seq[*object.Object]) {
	revision, tables := st.All()
	first := func(s state.Snapshot) object.Key {
		for o := range s.All("") {
			return o.Key
		}
		return object.Key{}
	}
	slices.SortFunc(tables, func(a, b state.Snapshot) int { return compare(first(a), first(b)) })
	return revision, func(yield func(*object.Object) bool) {
		for _, table := range tables {
			for o := range table.All("") {
				if !yield(o) {
					return
				}
			}
		}
	}
}

// Sorted sorts objects in the order of the format. It changes the slice.
func Sorted(objects []*object.Object) iter.Seq[*object.Object] {
	slices.SortFunc(objects, func(a, b *object.Object) int { return compare(a.Key, b.Key) })
	return slices.Values(objects)
}
