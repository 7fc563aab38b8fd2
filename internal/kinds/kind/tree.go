package kind

import (
	"github.com/kapok-dev/kapok/internal/resource"

	"k8s.io/apimachinery/pkg/runtime"
)

// Get returns the value at a path, nil if there is none.
func Get(obj resource.Tree, path ...string) any {
	var at any = obj
	for _, key := range path {
		m, ok := at.(resource.Tree)
		if !ok {
			return nil
		}
		at = m[key]
	}
	return at
}

// Text returns the string at a path, "" if there is none.
func Text(obj resource.Tree, path ...string) string {
	s, _ := Get(obj, path...).(string)
	return s
}

// Put sets the value at a path and creates missing maps on the way.
func Put(obj resource.Tree, value any, path ...string) {
	last := len(path) - 1
	for _, key := range path[:last] {
		next, ok := obj[key].(resource.Tree)
		if !ok {
			next = resource.Tree{}
			obj[key] = next
		}
		obj = next
	}
	obj[path[last]] = value
}

// Drop removes the value at a path.
func Drop(obj resource.Tree, path ...string) {
	last := len(path) - 1
	if parent, ok := Get(obj, path[:last]...).(resource.Tree); ok {
		delete(parent, path[last])
	}
}

// Keep sets the value at a path to a deep copy of the old object's, or removes it if the old object
// has none.
func Keep(obj, old resource.Tree, path ...string) {
	last := len(path) - 1
	parent, _ := Get(old, path[:last]...).(resource.Tree)
	if value, ok := parent[path[last]]; ok {
		Put(obj, runtime.DeepCopyJSONValue(value), path...)
	} else {
		Drop(obj, path...)
	}
}
