package fields

import (
	"fmt"
	"strings"
)

// Merge merges a configuration into an object as Apply does, but ignores owners and removes
// nothing. It modifies neither argument, and the result shares nothing with them. A configuration
// may only set scalars, and values whose parts are owned separately: setting some fields of a value
// that is owned as a whole would remove the others. The error messages are those of Kubernetes'
// MutatingAdmissionPolicy.
func (t *Type) Merge(obj, configuration Tree) (Tree, error) {
	n := t.root
	if err := validate(n, configuration, false); err != nil {
		return nil, fmt.Errorf("failed to convert patch object to typed object: %w", err)
	}
	if whole := wholes(nil, n, configuration, ""); len(whole) > 0 {
		return nil, fmt.Errorf("invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: %v", strings.Join(whole, ", "))
	}
	if err := validate(n, obj, true); err != nil {
		return nil, fmt.Errorf("failed to convert original object to typed object: %w", err)
	}
	var w merger
	merged, _ := w.merge(n, obj, configuration)
	tree, _ := merged.(Tree) // both are maps
	return cloneTree(tree), nil
}

// wholes appends the paths of v and of the values below it that are owned as a whole. It skips
// fields that the schema does not declare.
func wholes(found []string, n *node, v any, path string) []string {
	switch v := v.(type) {
	case map[string]any:
		if n.kinds&kindMap == 0 {
			return found
		}
		if n.atomicMap {
			found = append(found, path)
		}
		for _, name := range sortedKeys(v) {
			if f := n.field(name); f != nil {
				found = wholes(found, f.node, v[name], path+"."+name)
			}
		}
	case []any:
		if n.kinds&kindList == 0 {
			return found
		}
		if n.atomicList {
			found = append(found, path)
		}
		for i, item := range v {
			found = wholes(found, n.items, item, fmt.Sprintf("%s[%d]", path, i))
		}
	}
	return found
}
