package fields

// A comparison contains the fields in which a new object differs from an old one. The library
// distinguishes modified and added fields; here, they are one set, because no caller needs only one
// of them.
type comparison struct {
	gone fields // fields of the old object that the new one lacks
	set  fields // fields of the new object that the old one lacks, or that have another value
}

// touched returns all fields in which the objects differ.
func (c comparison) touched() fields { return union(c.set, c.gone) }

// compare compares two objects. ok is false if one of them does not fit the schema; then the result
// is invalid. Items of lists may occur more than once.
func compare(n *node, old, new Tree) (result comparison, ok bool) {
	return (&comparer{leaf: fields{}}).compare(n, old, new)
}

// compareShared compares two objects that may share values: it skips these.
func compareShared(n *node, old, new Tree) (result comparison, ok bool) {
	return (&comparer{leaf: fields{}, shared: true}).compare(n, old, new)
}

func (w *comparer) compare(n *node, old, new Tree) (result comparison, ok bool) {
	c := w.both(n, old, new)
	return comparison{c.gone.below, c.set.below}, !w.failed
}

// comparer compares two values. It collects the results below a value before it knows whether the
// path of the value is needed, so that the work is proportional to the values, at any depth.
type comparer struct {
	leaf   fields // the node at the end of all paths
	shared bool   // skip identical maps and lists
	failed bool
}

// mark is the membership of a node in a set.
type mark struct {
	member bool
	below  fields
}

// put adds the mark of a child.
func (m *mark) put(element string, child mark, leaf fields) {
	node := child.below
	switch {
	case node == nil && !child.member:
		return
	case node == nil:
		node = leaf
	case child.member:
		node[self] = leaf
	}
	if m.below == nil {
		m.below = fields{}
	}
	m.below[element] = node
}

// change is the comparison of two values.
type change struct{ gone, set mark }

func (c *change) put(element string, child change, leaf fields) {
	c.gone.put(element, child.gone, leaf)
	c.set.put(element, child.set, leaf)
}

// both compares two values, either of which may be null.
func (w *comparer) both(n *node, l, r any) change {
	switch x := l.(type) { // fast path: most fields are unchanged scalars
	case string:
		if y, ok := r.(string); ok && x == y && n.holds(l) {
			return change{}
		}
	case int64:
		if y, ok := r.(int64); ok && x == y && n.holds(l) {
			return change{}
		}
	case bool:
		if y, ok := r.(bool); ok && x == y && n.holds(l) {
			return change{}
		}
	}
	if w.shared && one(l, r) {
		return change{}
	}
	w.judge(n, l)
	w.judge(n, r)
	a, b := n.kindOf(l), n.kindOf(r)
	c := w.as(a, n, l, r)
	if a != b {
		// The values have different kinds: compare them as both.
		d := w.as(b, n, l, r)
		c.gone, c.set = w.either(c.gone, d.gone), w.either(c.set, d.set)
	}
	return c
}

// judge checks that a value has the type in the schema. If the value is owned as a whole, it checks
// all of it.
func (w *comparer) judge(n *node, v any) {
	ok := true
	switch v.(type) {
	case nil:
	case map[string]any:
		ok = n.kinds&kindMap != 0 && (!n.atomicMap || n.fits(v, true))
	case []any:
		ok = n.kinds&kindList != 0 && (!n.atomicList || n.fits(v, true))
	default:
		ok = n.holds(v)
	}
	if !ok {
		w.failed = true
	}
}

// judgeAll checks items of a list that are not compared.
func (w *comparer) judgeAll(n *node, items []any) {
	for _, item := range items {
		if !n.items.fits(item, true) {
			w.failed = true
		}
	}
}

func (w *comparer) either(a, b mark) mark {
	return mark{a.member || b.member, union(a.below, b.below)}
}

func (w *comparer) as(k kind, n *node, l, r any) change {
	switch k {
	case kindMap:
		x, _ := l.(map[string]any)
		y, _ := r.(map[string]any)
		if !n.atomicMap && len(x)+len(y) > 0 {
			return w.maps(n, x, y)
		}
	case kindList:
		x, _ := l.([]any)
		y, _ := r.([]any)
		if !n.atomicList && len(x)+len(y) > 0 {
			return w.lists(n, x, y)
		}
	}
	return change{set: mark{member: !equal(l, r)}}
}

func (w *comparer) maps(n *node, l, r map[string]any) (c change) {
	for name, x := range l {
		child, element := n.child(name)
		if child == nil {
			w.failed = true
			continue
		}
		if y, ok := r[name]; ok {
			c.put(element, w.both(child, x, y), w.leaf)
		} else {
			c.gone.put(element, w.only(child, x), w.leaf)
		}
	}
	for name, y := range r {
		if _, ok := l[name]; ok {
			continue
		}
		child, element := n.child(name)
		if child == nil {
			w.failed = true
			continue
		}
		c.set.put(element, w.only(child, y), w.leaf)
	}
	return c
}

func (w *comparer) lists(n *node, l, r []any) (c change) {
	if n.aligned(l, r) {
		for i := range l {
			if d := w.both(n.items, l[i], r[i]); d.any() {
				c.put(n.elementOf(l[i]), d, w.leaf)
			}
		}
		return c
	}
	old, new := w.group(n, l), w.group(n, r)
	for element, x := range old {
		y, ok := new[element]
		switch {
		case !ok:
			c.gone.put(element, w.repeated(n, x), w.leaf)
		case len(x) == 1 && len(y) == 1:
			c.put(element, w.both(n.items, x[0], y[0]), w.leaf)
		case len(x) > 1 && len(y) > 1:
			w.judgeAll(n, x)
			w.judgeAll(n, y)
			c.set.put(element, mark{member: !equal(x, y)}, w.leaf)
		default: // unique on one side only
			c.gone.put(element, w.repeated(n, x), w.leaf)
			c.set.put(element, w.repeated(n, y), w.leaf)
		}
	}
	for element, y := range new {
		if _, ok := old[element]; !ok {
			c.set.put(element, w.repeated(n, y), w.leaf)
		}
	}
	return c
}

// repeated returns the mark of list items with the same element. If there is more than one, fields
// below them are not owned.
func (w *comparer) repeated(n *node, items []any) mark {
	if len(items) > 1 {
		w.judgeAll(n, items)
		return mark{member: true}
	}
	return w.only(n.items, items[0])
}

// group groups the items of a list by element.
func (w *comparer) group(n *node, list []any) map[string][]any {
	groups := make(map[string][]any, len(list))
	for i, item := range list {
		if n.itemError(item) != nil {
			w.failed = true
			continue
		}
		element := n.elementOf(item)
		if groups[element] == nil {
			groups[element] = list[i : i+1 : i+1]
		} else {
			groups[element] = append(groups[element], item)
		}
	}
	return groups
}

// only returns the mark of a value that the other object lacks.
func (w *comparer) only(n *node, v any) mark {
	w.judge(n, v)
	m := mark{member: true}
	switch n.kindOf(v) {
	case kindMap:
		x, _ := v.(map[string]any)
		if n.atomicMap || len(x) == 0 {
			return m
		}
		m.below = make(fields, len(x)+1)
		for name, y := range x {
			child, element := n.child(name)
			if child == nil {
				w.failed = true
				continue
			}
			m.put(element, w.only(child, y), w.leaf)
		}
	case kindList:
		x, _ := v.([]any)
		if n.atomicList || len(x) == 0 {
			return m
		}
		m.below = make(fields, len(x)+1)
		for _, item := range x {
			if n.itemError(item) != nil {
				w.failed = true
				continue
			}
			element := n.elementOf(item)
			if _, repeated := m.below[element]; repeated {
				w.judgeAll(n, []any{item})
				m.below[element] = w.leaf
				continue
			}
			m.put(element, w.only(n.items, item), w.leaf)
		}
	}
	return m
}

// any reports whether the values differ.
func (c change) any() bool { return c.gone.any() || c.set.any() }

func (m mark) any() bool { return m.member || m.below != nil }
