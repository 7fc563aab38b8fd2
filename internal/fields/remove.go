package fields

// The part of server-side apply that removes the fields that a manager no longer applies.

// collector collects the fields of a value.
type collector struct {
	leaf  fields // the node at the end of all paths
	named bool   // the owner of fields below a declared field owns the field, too
}

// fieldsOf returns the set of fields in an object that its applier owns.
func fieldsOf(n *node, obj Tree) fields {
	w := collector{leaf: fields{}}
	set := w.value(n, obj).below
	if set == nil {
		return fields{}
	}
	return set
}

// namedFieldsOf returns the fields of an object, with those that withNamed adds.
func namedFieldsOf(obj typed) fields {
	w := collector{leaf: fields{}, named: true}
	return w.value(obj.node, obj.tree).below
}

// value returns the mark of an applied value.
func (w *collector) value(n *node, v any) (m mark) {
	switch n.kindOf(v) {
	case kindScalar:
		m.member = true
	case kindMap:
		if n.atomicMap {
			m.member = true
		} else if x, _ := v.(map[string]any); len(x) > 0 {
			m.below = w.object(n, x)
		}
	case kindList:
		if n.atomicList {
			m.member = true
		} else if x, _ := v.([]any); len(x) > 0 {
			m.below = w.list(n, x)
		}
	}
	return m
}

func (w *collector) object(n *node, obj map[string]any) fields {
	m := mark{below: make(fields, len(obj)+1)}
	for name, v := range obj {
		f := n.field(name)
		child, element := n.element, ""
		if f != nil {
			child, element = f.node, f.element
		} else {
			element = "f:" + name
		}
		if child == nil {
			continue
		}
		of := w.value(child, v)
		of.member = of.member || f == nil || isEmptyMap(v) || w.named && of.below != nil
		m.put(element, of, w.leaf)
	}
	if len(m.below) == 0 {
		return nil
	}
	return m.below
}

func (w *collector) list(n *node, list []any) fields {
	m := mark{below: make(fields, len(list)+1)}
	for _, item := range list {
		element := invalidElement
		if n.itemError(item) == nil {
			element = n.elementOf(item)
		}
		if _, repeated := m.below[element]; repeated {
			m.below[element] = w.leaf
			continue
		}
		of := w.value(n.items, item)
		of.member = true
		m.put(element, of, w.leaf)
	}
	return m.below
}

// isEmptyMap reports whether a value is null or a map without fields.
func isEmptyMap(v any) bool {
	m, ok := v.(map[string]any)
	return v == nil || ok && len(m) == 0
}

// withNamed adds to a set the declared fields that have members below them.
func withNamed(n *node, set fields) fields {
	if len(set) == 0 {
		return set
	}
	return addNamed(n, set, fields{})
}

func addNamed(n *node, set, leaf fields) fields {
	out := make(fields, len(set)+1)
	for element, v := range set {
		sub := children(v)
		if len(sub) == 0 || element == self {
			out[element] = leaf
			continue
		}
		below, declared := n.member(element)
		sub = addNamed(below, sub, leaf)
		if declared {
			sub[self] = leaf
		}
		out[element] = sub
	}
	return out
}

// member returns the schema under an element of a set, and whether it is a declared field.
func (n *node) member(element string) (below *node, declared bool) {
	if n == nil || len(element) < 2 {
		return nil, false
	}
	switch {
	case element[0] == 'f' && n.kinds&kindMap != 0:
		if f := n.field(element[2:]); f != nil {
			return f.node, true
		}
		return n.element, false
	case element[0] == 'k' && n.kinds&kindList != 0:
		return n.items, false
	}
	return nil, false
}

// remove returns a value without the fields in a set. It shares unchanged parts with v.
func remove(n *node, v any, set fields) any {
	switch n.kindOf(v) {
	case kindScalar:
		return v
	case kindMap:
		m, ok := v.(map[string]any)
		if !ok || len(m) == 0 || n.atomicMap {
			return nil
		}
		return removeFields(n, m, set)
	case kindList:
		list, ok := v.([]any)
		if !ok || len(list) == 0 || n.atomicList {
			return nil
		}
		return removeItems(n, list, set)
	}
	return nil
}

func removeFields(n *node, m map[string]any, set fields) any {
	out := make(map[string]any, len(m))
	for name, v := range m {
		child, element := n.child(name)
		if at, ok := set[element]; ok {
			node := children(at)
			if isMember(node) {
				continue
			}
			if child != nil {
				v = remove(child, v, node)
			}
		}
		out[name] = v
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

func removeItems(n *node, list []any, set fields) any {
	out := make([]any, 0, len(list))
	for _, item := range list {
		element := invalidElement
		if n.itemError(item) == nil {
			element = n.elementOf(item)
		}
		if at, ok := set[element]; ok {
			node := children(at)
			if isMember(node) {
				continue
			}
			item = remove(n.items, item, node)
		}
		out = append(out, item)
	}
	if len(out) == 0 {
		return nil
	}
	return out
}
