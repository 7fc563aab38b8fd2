package fields

import (
	"encoding/json"
	"maps"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// fields is a set of fields in the form of FieldsV1, as in objects: a trie of path elements.
//
//	{"f:spec": {".": {}, "f:replicas": {}, "f:ports": {"k:{\"port\":80}": {".": {}, "f:port": {}}}}}
//
// A node without children is a member of the set; a node with children is a member if it has the
// child ".". The root is never a member. Every node is a map, every leaf an empty one, and every
// element has the canonical spelling (see spell): so two sets are equal if their trees are. The
// functions below return sets that share parts with their arguments; sets are never changed after
// they have been returned.
type fields = map[string]any

const self = "."

// children returns the children of a node.
func children(v any) fields {
	m, _ := v.(fields)
	return m
}

// isMember reports whether a node is in the set.
func isMember(node fields) bool {
	if len(node) == 0 {
		return true
	}
	_, ok := node[self]
	return ok
}

// hasChildren reports whether a node has children.
func hasChildren(node fields) bool {
	switch len(node) {
	case 0:
		return false
	case 1:
		_, ok := node[self]
		return !ok
	}
	return true
}

// fieldsFrom converts a set of the library.
func fieldsFrom(set *fieldpath.Set) (fields, error) {
	if set == nil {
		return nil, nil
	}
	text, err := set.ToJSON()
	if err != nil {
		return nil, err
	}
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		return nil, err
	}
	return respell(v, true)
}

// has reports whether a path is a member of the set.
func has(set fields, path ...string) bool {
	for _, element := range path {
		node, ok := set[element]
		if !ok {
			return false
		}
		set = children(node)
	}
	return isMember(set)
}

// union returns the members of a or b.
func union(a, b fields) fields {
	if len(a) == 0 {
		return b
	}
	out, _ := unite(a, b)
	return out
}

// unite adds b to a, which must not be empty, and reports whether that changed a.
func unite(a, b fields) (out fields, changed bool) {
	out = a
	for element, v := range b {
		merged := children(v)
		if has, ok := a[element]; ok {
			more := false
			if merged, more = uniteNodes(children(has), merged); !more {
				continue
			}
		}
		if !changed {
			out, changed = maps.Clone(a), true
		}
		out[element] = merged
	}
	return out, changed
}

// uniteNodes is unite for nodes below the root, where a leaf is a member.
func uniteNodes(a, b fields) (out fields, changed bool) {
	switch {
	case len(b) == 0 && isMember(a):
		return a, false
	case len(b) == 0:
		return withSelf(a, b), true
	case len(a) == 0 && isMember(b):
		return b, true
	case len(a) == 0:
		return withSelf(b, a), true
	}
	return unite(a, b)
}

// withSelf returns a node with children as a member.
func withSelf(node, leaf fields) fields {
	out := make(fields, len(node)+1)
	maps.Copy(out, node)
	out[self] = leaf
	return out
}

// difference returns the members of a that are not in b. It keeps members below those of b.
func difference(a, b fields) fields {
	out, _ := differ(a, b, false, true)
	return out
}

// recursiveDifference returns the members of a that are neither in b nor below a member of b.
func recursiveDifference(a, b fields) fields {
	out, _ := differ(a, b, true, true)
	return out
}

// differ returns a without b. The result is nil if it is empty, unless a is empty.
func differ(a, b fields, recursive, root bool) (out fields, changed bool) {
	if !root {
		switch {
		case recursive && isMember(b):
			return nil, true
		case len(a) == 0 && isMember(b):
			return nil, true
		case len(a) == 0:
			return a, false
		case len(b) == 0:
			if _, ok := a[self]; !ok {
				return a, false
			}
			if len(a) == 1 {
				return nil, true
			}
			out = maps.Clone(a)
			delete(out, self)
			return out, true
		}
	}
	out = a
	remove := func(element string, left fields) {
		if !changed {
			out, changed = maps.Clone(a), true
		}
		if left == nil {
			delete(out, element)
		} else {
			out[element] = left
		}
	}
	if len(b) <= len(a) {
		for element, v := range b {
			if has, ok := a[element]; ok {
				takeAway(element, children(has), children(v), recursive, remove)
			}
		}
	} else {
		for element, has := range a {
			if v, ok := b[element]; ok {
				takeAway(element, children(has), children(v), recursive, remove)
			}
		}
	}
	if changed && !root {
		if len(out) == 0 {
			return nil, true
		}
		if leaf, ok := out[self]; ok && len(out) == 1 {
			return children(leaf), true
		}
	}
	return out, changed
}

func takeAway(element string, a, b fields, recursive bool, remove func(string, fields)) {
	if element == self {
		remove(element, nil)
		return
	}
	if left, changed := differ(a, b, recursive, false); changed {
		remove(element, left)
	}
}

// intersection returns the members of both a and b.
func intersection(a, b fields) fields {
	if len(b) < len(a) {
		a, b = b, a
	}
	var out fields
	for element, v := range a {
		w, ok := b[element]
		if !ok || element == self {
			continue
		}
		x, y := children(v), children(w)
		inner := intersection(x, y)
		member := isMember(x) && isMember(y)
		if !member && len(inner) == 0 {
			continue
		}
		if out == nil {
			out = fields{}
		}
		switch {
		case len(inner) == 0:
			out[element] = fields{}
		case member:
			inner[self] = fields{}
			out[element] = inner
		default:
			out[element] = inner
		}
	}
	return out
}

// intersects reports whether a and b have a common member.
func intersects(a, b fields) bool {
	if len(b) < len(a) {
		a, b = b, a
	}
	for element, v := range a {
		w, ok := b[element]
		if !ok || element == self {
			continue
		}
		x, y := children(v), children(w)
		if isMember(x) && isMember(y) || intersects(x, y) {
			return true
		}
	}
	return false
}

// includes reports whether all of b is in a.
func includes(a, b fields) bool {
	for element, v := range b {
		w, ok := a[element]
		if element == self {
			continue
		}
		if !ok {
			return false
		}
		x, y := children(w), children(v)
		if isMember(y) && !isMember(x) || !includes(x, y) {
			return false
		}
	}
	return true
}

// each calls visit with the paths of all members, in the order of the library: a node before its
// children. It stops when visit returns false. visit must not keep the path.
func each(set fields, path []string, visit func(path []string) bool) bool {
	elements := make([]string, 0, len(set))
	for element := range set {
		if element != self {
			elements = append(elements, element)
		}
	}
	sortElements(elements)
	for _, element := range elements {
		if isMember(children(set[element])) && !visit(append(path, element)) {
			return false
		}
	}
	for _, element := range elements {
		if below := children(set[element]); hasChildren(below) && !each(below, append(path, element), visit) {
			return false
		}
	}
	return true
}
