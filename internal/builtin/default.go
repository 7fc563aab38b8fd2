package builtin

import (
	"slices"

	"github.com/kapok-dev/kapok/internal/object"
)

// newestDefault finds, among the objects of a list that want to be the default, the one that was made last; of those made
// in the same second the first by name.
func newestDefault[T any](wants func(obj *T) bool) func(list []*object.Object) string {
	return func(list []*object.Object) string {
		var newest *object.Object
		for _, o := range list {
			tree, err := o.Tree()
			if err != nil || !wants(decoded[T](tree)) { // who cannot be read cannot be shown either
				continue
			}
			if newest == nil || o.Meta.Created.After(newest.Meta.Created) || o.Meta.Created.Equal(newest.Meta.Created) && o.Key.Name < newest.Key.Name {
				newest = o
			}
		}
		if newest == nil {
			return ""
		}
		return newest.Key.Name
	}
}

// ordered sorts the objects of a list; those that cannot be read come first.
func ordered[T any](compare func(a, b *T) int) func(list []*object.Object) []*object.Object {
	return func(list []*object.Object) []*object.Object {
		decodedOf := make(map[*object.Object]*T, len(list))
		for _, o := range list {
			tree, _ := o.Tree() // nil decodes to what is empty
			decodedOf[o] = decoded[T](tree)
		}
		sorted := slices.Clone(list) // which is not ours to change
		slices.SortStableFunc(sorted, func(a, b *object.Object) int { return compare(decodedOf[a], decodedOf[b]) })
		return sorted
	}
}
