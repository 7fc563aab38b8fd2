package builtin

import "github.com/kapok-dev/kapok/internal/resource"

type warner = func(obj, old resource.Tree) []string

// warnings are those of all, in their order.
func warnings(all ...warner) warner {
	return func(obj, old resource.Tree) []string {
		var found []string
		for _, warn := range all {
			found = append(found, warn(obj, old)...)
		}
		return found
	}
}

// ifNew warns of what is created, and whenever the generation has grown, also of what
// was there before.
func ifNew(warn warner) warner {
	return func(obj, old resource.Tree) []string {
		if old != nil && get(obj, "metadata", "generation") == get(old, "metadata", "generation") {
			return nil
		}
		return warn(obj, nil)
	}
}
