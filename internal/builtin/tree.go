package builtin

import (
	"github.com/kapok-dev/kapok/internal/resource"

	"k8s.io/apimachinery/pkg/runtime"
)

// get returns what lies at a path, nil if there is nothing.
func get(obj resource.Tree, path ...string) any {
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

// text returns the string at a path, "" if there is none.
func text(obj resource.Tree, path ...string) string {
	s, _ := get(obj, path...).(string)
	return s
}

// put sets the value at a path and makes the maps that lead to it.
func put(obj resource.Tree, value any, path ...string) {
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

// drop removes what lies at a path.
func drop(obj resource.Tree, path ...string) {
	last := len(path) - 1
	if parent, ok := get(obj, path[:last]...).(resource.Tree); ok {
		delete(parent, path[last])
	}
}

// keep puts back what lay at a path, in a copy of its own.
func keep(obj, old resource.Tree, path ...string) {
	last := len(path) - 1
	parent, _ := get(old, path[:last]...).(resource.Tree)
	if value, ok := parent[path[last]]; ok {
		put(obj, runtime.DeepCopyJSONValue(value), path...)
	} else {
		drop(obj, path...)
	}
}
