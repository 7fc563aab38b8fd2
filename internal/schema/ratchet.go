package schema

import (
	"strconv"

	"github.com/kapok-dev/kapok/internal/object"
)

// correlation links a value under validation to the value that it replaces, so that an update is
// not rejected for unchanged values (KEP-4008, CRDValidationRatcheting). Properties correlate by
// name, items of lists of type map by their keys, and other items not at all. Properties that the
// schema does not specify do not correlate either. A nil correlation means that there is no old
// value.
type correlation struct {
	node *node
	old  any
	root bool
	list *oldItems // of the old value if it is a list; made on first use

	compared, same bool // cached result of unchanged
}

// validateChild validates v and discards the errors if v is unchanged.
func (n *node) validateChild(v any, at *path, r *report, old *correlation) bool {
	if old == nil {
		return n.validate(v, at, r, nil)
	}
	mark := len(r.findings)
	if n.validate(v, at, r, old) {
		return true
	}
	if !old.unchanged(v) {
		return false
	}
	r.findings = r.findings[:mark]
	return true
}

// unchanged compares the new value with the old one, once. The new value is always the same.
func (c *correlation) unchanged(v any) bool {
	if !c.compared {
		c.compared, c.same = true, c.node.unchanged(v, c.old)
	}
	return c.same
}

// rootsOwn reports whether a property of the root is its apiVersion or kind. These never correlate:
// both the old and the new object have been converted to the version of the request.
func rootsOwn(name string) bool { return name == "apiVersion" || name == "kind" }

// property returns the correlation of a property; nil if there is none.
func (c *correlation) property(name string) *correlation {
	if c == nil || c.root && rootsOwn(name) {
		return nil
	}
	old, ok := c.old.(map[string]any)
	if !ok {
		return nil
	}
	v, found := old[name]
	child, _ := c.node.child(name)
	if !found || child == nil {
		return nil
	}
	return &correlation{node: child, old: v}
}

// item returns the correlation of an item; nil if there is none.
func (c *correlation) item(v any) *correlation {
	if c == nil {
		return nil
	}
	old, ok := c.old.([]any)
	if !ok {
		return nil
	}
	if c.list == nil {
		c.list = indexItems(c.node, old)
	}
	match := c.list.get(v)
	if match == nil || c.node.items == nil {
		return nil
	}
	return &correlation{node: c.node.items, old: match}
}

// unchanged compares a value of schema n with the old one. Lists of type map are equal if they have
// the same items in any order. Values that the schema does not specify count as changed.
func (n *node) unchanged(v, old any) bool {
	switch v := v.(type) {
	case map[string]any:
		old, ok := old.(map[string]any)
		if !ok || len(v) != len(old) {
			return false
		}
		for k, e := range v {
			o, found := old[k]
			c, _ := n.child(k)
			if !found || c == nil || !c.unchanged(e, o) {
				return false
			}
		}
		return true
	case []any:
		old, ok := old.([]any)
		if !ok || len(v) != len(old) {
			return false
		}
		if n.list == nil || n.list.kind != listMap {
			return object.Equal(v, old)
		}
		items := indexItems(n, old)
		for _, e := range v {
			match := items.get(e)
			if match == nil || n.items == nil || !n.items.unchanged(e, match) {
				return false
			}
		}
		return true
	}
	return object.Equal(v, old)
}

// oldItems indexes the items of a list of type map by their keys.
type oldItems struct {
	keys  []string
	items map[any]any
}

// indexItems indexes the items of a list. Of items with equal keys, it contains the first one. It
// is empty for other lists.
func indexItems(n *node, list []any) *oldItems {
	if n.list == nil || n.list.kind != listMap || len(n.list.keys) == 0 || n.types != typeArray {
		return &oldItems{}
	}
	x := &oldItems{keys: n.list.keys, items: make(map[any]any, len(list))}
	for _, item := range list {
		if key := x.key(item); key != nil {
			if _, found := x.items[key]; !found {
				x.items[key] = item
			}
		}
	}
	return x
}

func (x *oldItems) get(item any) any {
	key := x.key(item)
	if key == nil {
		return nil
	}
	return x.items[key]
}

// key returns the key of an item, or nil: its only key, or the printed form of all. As in
// Kubernetes, floats lose digits.
func (x *oldItems) key(item any) any {
	obj, ok := item.(map[string]any)
	if !ok || len(x.keys) == 0 {
		return nil
	}
	if len(x.keys) == 1 {
		switch v := obj[x.keys[0]].(type) {
		case bool, float64, int64, string:
			return v
		}
		return nil
	}
	var b []byte
	for _, k := range x.keys {
		b = append(b, 0)
		switch v := obj[k].(type) {
		case bool:
			b = strconv.AppendBool(b, v)
		case float64:
			b = strconv.AppendFloat(b, v, 'f', 6, 64)
		case int64:
			b = strconv.AppendInt(b, v, 10)
		case string:
			b = strconv.AppendQuote(b, v)
		default:
			return nil
		}
	}
	return string(b)
}
