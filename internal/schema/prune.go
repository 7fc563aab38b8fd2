package schema

// pruner removes unspecified fields and forbidden nulls, and optionally sets defaults in the same
// pass. That is possible only if nothing runs in between: if the schema has no embedded resources
// to coerce.
type pruner struct {
	unknown *[]string // receives the paths of removed fields; may be nil
	fill    bool
	nulls   bool // keep nulls that the schema does not allow
	typed   bool // of these, keep those with a type, which validation rejects
}

// mode is the treatment of properties that a node does not specify.
type mode uint8

const (
	strict  mode = iota // remove them
	lenient             // keep them, but declared properties below are strict again
	settled             // keep them, here and below: the schema does not prune metadata
)

func modeOf(n *node) mode {
	if n != nil && n.keep {
		return lenient
	}
	return strict
}

// isMeta reports whether a property is one that every resource has: these are never pruned.
func isMeta(name string) bool { return name == "apiVersion" || name == "kind" || name == "metadata" }

func (w *pruner) value(v any, n *node, m mode, at *path) {
	switch v := v.(type) {
	case map[string]any:
		if n == nil {
			w.clear(v, m, at)
		} else {
			w.object(v, n, m, at)
		}
	case []any:
		w.list(v, n, m, at)
	}
}

// clear removes all properties of an object whose schema is additionalProperties: true, which
// specifies none.
func (w *pruner) clear(obj map[string]any, m mode, at *path) {
	if m != strict {
		return
	}
	if w.unknown != nil {
		for k := range obj {
			w.record(k, at)
		}
	}
	clear(obj)
}

func (w *pruner) object(obj map[string]any, n *node, m mode, at *path) {
	resource := n.embedded || at == nil
	step := path{up: at}
	for k, v := range obj {
		c, known := n.child(k)
		if resource && isMeta(k) {
			w.property(obj, k, v, c, settled, &step)
			continue
		}
		switch {
		case !known:
			if m == strict {
				w.record(k, at)
				delete(obj, k)
			}
		case m == settled:
			w.property(obj, k, v, c, settled, &step)
		default:
			w.property(obj, k, v, c, modeOf(c), &step)
		}
	}
	if w.fill && n.fills {
		fillAbsent(obj, n)
	}
}

// property prunes one property with schema c, which may be nil.
func (w *pruner) property(obj map[string]any, k string, v any, c *node, m mode, step *path) {
	if v != nil {
		if !isScalar(v) {
			step.key = k
			w.value(v, c, m, step)
		}
		return
	}
	if c == nil || c.nullable || w.nulls || w.typed && c.types != 0 {
		return
	}
	if c.fallback == nil {
		delete(obj, k)
	} else if w.fill {
		obj[k] = clone(c.fallback)
	}
}

func (w *pruner) list(list []any, n *node, m mode, at *path) {
	var items *node
	if n != nil {
		items = n.items
	}
	if items == nil && m != strict {
		return
	}
	if m == strict {
		m = modeOf(items)
	}
	step := path{up: at, kind: stepIndex}
	for i, v := range list {
		if v == nil {
			if w.fill && items != nil && !items.nullable && items.fallback != nil {
				list[i] = clone(items.fallback)
			}
			continue
		}
		step.index = i
		w.value(v, items, m, &step)
	}
}

func (w *pruner) record(name string, at *path) {
	if w.unknown != nil {
		*w.unknown = append(*w.unknown, (&path{up: at, key: name}).dotted())
	}
}

// fill sets defaults in v, whose schema is n. It does not visit the defaults themselves, which are
// complete.
func fill(v any, n *node) {
	if n == nil || !n.fills {
		return
	}
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			c, _ := n.child(k)
			switch {
			case c == nil:
			case e == nil:
				if !c.nullable && c.fallback != nil {
					v[k] = clone(c.fallback)
				}
			default:
				fill(e, c)
			}
		}
		fillAbsent(v, n)
	case []any:
		for i, e := range v {
			if e != nil {
				fill(e, n.items)
			} else if c := n.items; c != nil && !c.nullable && c.fallback != nil {
				v[i] = clone(c.fallback)
			}
		}
	}
}

func fillAbsent(obj map[string]any, n *node) {
	for i := range n.fields {
		f := &n.fields[i]
		if f.node.fallback == nil {
			continue
		}
		if _, found := obj[f.name]; !found {
			obj[f.name] = clone(f.node.fallback)
		}
	}
}
