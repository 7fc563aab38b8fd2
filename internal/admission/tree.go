package admission

import "github.com/kapok-dev/kapok/internal/resource"

// Child returns an object within an object, and creates it if it is missing.
func Child(obj resource.Tree, key string) resource.Tree {
	c, ok := obj[key].(map[string]any)
	if !ok {
		c = resource.Tree{}
		obj[key] = c
	}
	return c
}
