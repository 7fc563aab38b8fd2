package manage

// What prune finds out for objects of several versions and owners, is seen at once where nobody else has anything to do
// with what the applier lets go.

// removals returns the fields that an applier owned by last, does not own by set, and nobody owns by others. v is the
// merged object, all sets are of its version, and set is that of the applied object, none of whose maps is empty where
// v's is not. It is not ok where more is to be considered than that.
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
			continue // gone before
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

// includesNode tells whether node a has all that node b has, itself included.
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

// owned tells whether any set has an element, or anything below it.
func owned(sets []fields, element string) bool {
	for _, set := range sets {
		if _, ok := set[element]; ok {
			return true
		}
	}
	return false
}

// beneath are the sets below an element.
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

// isField tells whether the value of a declared field makes it one of the fields of an object: an empty list does not.
func isField(n *node, v any) bool {
	w := collector{leaf: fields{}}
	m := w.value(n, v)
	return m.any() || isEmptyMap(v)
}

// others are the sets of all entries but one. They are not ok if one is of another version.
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
