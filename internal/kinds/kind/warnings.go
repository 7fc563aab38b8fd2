package kind

import "github.com/kapok-dev/kapok/internal/resource"

type warner = func(obj, old resource.Tree) []string

// Warnings returns the warnings of all functions, in their order.
func Warnings(all ...warner) warner {
	return func(obj, old resource.Tree) []string {
		var found []string
		for _, warn := range all {
			found = append(found, warn(obj, old)...)
		}
		return found
	}
}

// IfNew runs warn on create and whenever the generation has grown, each time without the old
// object.
func IfNew(warn warner) warner {
	return func(obj, old resource.Tree) []string {
		if old != nil && Get(obj, "metadata", "generation") == Get(old, "metadata", "generation") {
			return nil
		}
		return warn(obj, nil)
	}
}
