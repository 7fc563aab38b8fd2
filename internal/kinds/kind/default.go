package kind

import (
	"slices"

	"github.com/kapok-dev/kapok/internal/object"

	"k8s.io/apimachinery/pkg/runtime"
)

// newestDefault returns the name of the default among the objects of a list: of those marked as the
// default the one created last, and of those created in the same second the first by name.
func newestDefault[P runtime.Object](wants func(obj P) bool) func(list []*object.Object) string {
	return func(list []*object.Object) string {
		var newest *object.Object
		for _, o := range list {
			tree, err := o.Tree()
			if err != nil || !wants(decoded[P](tree)) { // an object that cannot be decoded is not shown either
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

// ordered sorts the objects of a list. Objects that cannot be decoded come first.
func ordered[P runtime.Object](compare func(a, b P) int) func(list []*object.Object) []*object.Object {
	return func(list []*object.Object) []*object.Object {
		decodedOf := make(map[*object.Object]P, len(list))
		for _, o := range list {
			tree, _ := o.Tree() // a nil tree decodes to an empty object
			decodedOf[o] = decoded[P](tree)
		}
		sorted := slices.Clone(list) // the list belongs to the caller
		slices.SortStableFunc(sorted, func(a, b *object.Object) int { return compare(decodedOf[a], decodedOf[b]) })
		return sorted
	}
}
