package fields

import (
	"maps"
	"slices"
)

// A merger merges an applied value into a live one. The result shares parts with both.
type merger struct {
	changed bool // the result differs from the live value
	hollow  bool // a null or an empty map was applied to a value that is not empty
}

// merge returns l with r merged into it; same reports whether the result is l, unchanged.
func (w *merger) merge(n *node, l, r any) (v any, same bool) {
	switch n.kindOf(r) {
	case kindMap:
		x, _ := l.(map[string]any)
		y, _ := r.(map[string]any)
		if !n.atomicMap && len(x)+len(y) > 0 {
			w.hollow = w.hollow || len(y) == 0
			return w.maps(n, x, y)
		}
	case kindList:
		x, _ := l.([]any)
		y, _ := r.([]any)
		if !n.atomicList && len(x)+len(y) > 0 {
			w.hollow = w.hollow || r == nil
			return w.lists(n, x, y)
		}
	}
	if identical(l, r) {
		return l, true
	}
	w.changed = w.changed || !equal(l, r)
	return r, false
}

func (w *merger) maps(n *node, l, r map[string]any) (v any, same bool) {
	var out map[string]any
	for name, y := range r {
		x, ok := l[name]
		merged, same := any(nil), false
		if child, _ := n.child(name); ok && child != nil {
			merged, same = w.merge(child, x, y)
		} else {
			merged, w.changed = y, true
		}
		if same {
			continue
		}
		if out == nil {
			out = make(map[string]any, max(len(l), len(r)))
			maps.Copy(out, l)
		}
		out[name] = merged
	}
	if out == nil {
		return l, true
	}
	return out, false
}

func (w *merger) lists(n *node, l, r []any) (v any, same bool) {
	if len(r) == 0 {
		return l, true
	}
	if n.aligned(l, r) {
		return w.pairs(n, l, r)
	}
	return w.weave(n, l, r)
}

// pairs merges two lists with the same elements in the same order.
func (w *merger) pairs(n *node, l, r []any) (v any, same bool) {
	var out []any
	for i := range l {
		merged, same := w.merge(n.items, l[i], r[i])
		if same {
			continue
		}
		if out == nil {
			out = slices.Clone(l)
		}
		out[i] = merged
	}
	if out == nil {
		return l, true
	}
	return out, false
}

// indexed contains the positions of a list's items by element; repeatedly if an element occurs more
// than once.
type indexed struct {
	elements []string
	at       map[string]int
}

const repeatedly = -1

func (n *node) index(list []any) indexed {
	x := indexed{make([]string, len(list)), make(map[string]int, len(list))}
	for i, item := range list {
		element := n.elementOf(item)
		x.elements[i] = element
		if _, found := x.at[element]; found {
			x.at[element] = repeatedly
		} else {
			x.at[element] = i
		}
	}
	return x
}

func (x indexed) has(element string) bool { _, ok := x.at[element]; return ok }

// weave merges two lists with different elements, or a different order. Items of r keep the order
// of r. Items that only l has stay before the item that follows them in l, as far as the order of r
// permits; items that only r has stay after the item that they follow in r.
func (w *merger) weave(n *node, l, r []any) (v any, same bool) {
	left, right := n.index(l), n.index(r)
	// shared are the elements of both lists that are still to come, in the order of r.
	var shared []string
	for _, element := range right.elements {
		if left.has(element) {
			shared = append(shared, element)
		}
	}
	out := make([]any, 0, max(len(l), len(r)))
	unmoved, done := true, make(map[string]bool, len(r))
	take := func(element string) { // appends an item of r, merged with that of l
		done[element] = true
		at, ok := left.at[element]
		item := r[right.at[element]]
		if !ok || at == repeatedly {
			out, unmoved, w.changed = append(out, item), false, true
			return
		}
		merged, same := w.merge(n.items, l[at], item)
		unmoved = unmoved && same && at == len(out)
		w.changed = w.changed || at != len(out)
		out = append(out, merged)
	}
	for i, j := 0, 0; i < len(l) || j < len(r); {
		if i < len(l) && j < len(r) {
			element := left.elements[i]
			if element == right.elements[j] {
				take(element)
				i, j = i+1, j+1
				if len(shared) > 0 {
					shared = shared[1:]
				}
				continue
			}
			if right.has(element) && len(shared) > 0 && shared[0] != element {
				i++ // it is appended at its place in r
				continue
			}
		}
		if i < len(l) {
			element := left.elements[i]
			if !right.has(element) {
				unmoved = unmoved && i == len(out)
				out = append(out, l[i])
				i++
				continue
			}
			if done[element] {
				i++
			}
		}
		if j < len(r) {
			element := right.elements[j]
			take(element)
			j++
			if len(shared) > 0 && shared[0] == element {
				shared = shared[1:]
			}
		}
	}
	if unmoved && len(out) == len(l) {
		return l, true
	}
	w.changed = w.changed || len(out) != len(l)
	return out, false
}
