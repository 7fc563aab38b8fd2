package fields

// A fast path for prune: with one version, and no other manager of the fields that the applier
// removes, the result can be computed directly.

// removals returns the fields that an applier owned by last, and that neither it, by set, nor
// others own now. v is the merged object; all sets are in its version, and set is that of the
// applied object, in which no map is empty unless it is also empty in v. ok is false if the general
// algorithm is needed.
func removals(n *node, v any, last, set fields, others []fields) (gone fields, ok bool) {
	for element, x := range last {
		was, is := children(x), children(set[element])
		_, still := set[element]
		switch {
		case element == self, still && includesNode(is, was):
			continue
		case still && !(hasChildren(was) && hasChildren(is)):
			return nil, false
		}
		child, value, found := n.at(v, element)
		if !found {
			continue // already removed
		}
		if child == nil {
			return nil, false
		}
		if still {
			below, ok := removals(child, value, was, is, beneath(others, element))
			if !ok {
				return nil, false
			}
			gone = put(gone, element, below)
			continue
		}
		_, declared := n.member(element)
		if owned(others, element) || !isMember(was) && !declared {
			return nil, false
		}
		if declared && !isField(child, value) {
			continue
		}
		gone = put(gone, element, fields{})
	}
	return gone, true
}

// includesNode reports whether node a includes all members of node b, and b itself.
func includesNode(a, b fields) bool { return (isMember(a) || !isMember(b)) && includes(a, b) }

func put(set fields, element string, node fields) fields {
	if node == nil {
		return set
	}
	if set == nil {
		set = fields{}
	}
	set[element] = node
	return set
}

// owned reports whether any set contains an element, or anything below it.
func owned(sets []fields, element string) bool {
	for _, set := range sets {
		if _, ok := set[element]; ok {
			return true
		}
	}
	return false
}

// beneath returns the sets below an element.
func beneath(sets []fields, element string) (below []fields) {
	for _, set := range sets {
		if node, ok := set[element]; ok {
			below = append(below, children(node))
		}
	}
	return below
}

// at returns the value under an element, and its schema.
func (n *node) at(v any, element string) (child *node, value any, found bool) {
	switch x := v.(type) {
	case map[string]any:
		if n.kindOf(v) != kindMap || n.atomicMap || len(element) < 2 || element[0] != 'f' {
			return nil, nil, true
		}
		value, found = x[element[2:]]
		child, _ = n.child(element[2:])
		return child, value, found
	case []any:
		if n.kindOf(v) != kindList || n.atomicList {
			return nil, nil, true
		}
		for _, item := range x {
			if n.itemError(item) != nil {
				return nil, nil, true
			}
			if n.elementOf(item) == element {
				if found {
					return nil, nil, true // twice
				}
				child, value, found = n.items, item, true
			}
		}
		return child, value, found
	}
	return nil, nil, true
}

// isField reports whether the value of a declared field makes it a field of the object: an empty
// list does not.
func isField(n *node, v any) bool {
	w := collector{leaf: fields{}}
	m := w.value(n, v)
	return m.any() || isEmptyMap(v)
}

// others returns the sets of all entries except one. ok is false if any entry has another version.
func (m managed) others(id identity, version string) (sets []fields, ok bool) {
	for i := range m {
		if m[i].version != version {
			return nil, false
		}
		if m[i].identity != id {
			sets = append(sets, m[i].fields)
		}
	}
	return sets, true
}
