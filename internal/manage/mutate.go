package manage

import (
	"fmt"
	"strings"
)

// Merge lays a configuration over an object, as Apply does, without regard to who owns what, and removes nothing. Neither of
// them is changed, and the result shares nothing with them. A configuration may only set what is owned by its parts or is
// a scalar: to name some fields of what is owned as a whole would remove the others. The words of the errors are those of
// Kubernetes' MutatingAdmissionPolicy.
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
	tree, _ := merged.(Tree) // as both are
	return cloneTree(tree), nil
}

// wholes appends the paths of the values below v, and of v, that are owned as a whole. Fields that the schema does not declare
// are not looked into.
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
