package fields

import (
	"errors"
	"fmt"
)

// itemError returns the reason why an item of a list has no identity, or nil. The messages are the
// library's.
func (n *node) itemError(item any) error {
	if len(n.keys) == 0 {
		switch item.(type) {
		case map[string]any:
			return errors.New("associative list without keys has an element that's a map type")
		case []any:
			return errors.New("not supported: associative list with lists as elements")
		case nil:
			return errors.New("associative list without keys has an element that's an explicit null")
		}
		return nil
	}
	m, ok := item.(map[string]any)
	switch {
	case item == nil:
		return errors.New("associative list with keys may not have a null element")
	case !ok:
		return errors.New("associative list with keys may not have non-map elements")
	}
	found := false
	for i := range n.keys {
		k := &n.keys[i]
		if _, ok := k.of(m); ok {
			found = true
		} else if n.items.kinds&kindMap == 0 {
			return fmt.Errorf("couldn't find default value for %v: associative list may not have non-map types", k.name)
		}
	}
	if !found {
		return fmt.Errorf("associative list with keys has an element that omits all key fields %q (and doesn't have default values for any key fields)", n.keyNames)
	}
	return nil
}

// sameItem reports whether two items have the same element. Neither has an itemError.
func (n *node) sameItem(a, b any) bool {
	if len(n.keys) == 0 {
		return equal(a, b)
	}
	x, _ := a.(map[string]any)
	y, _ := b.(map[string]any)
	for i := range n.keys {
		v, ok := n.keys[i].of(x)
		w, ok2 := n.keys[i].of(y)
		if ok != ok2 || !equal(v, w) {
			return false
		}
	}
	return true
}

// few is the length of lists up to which items are compared in pairs, which is faster than spelling
// their elements.
const few = 12

// aligned reports whether two lists certainly have the same elements in the same order, without
// duplicates. It returns false for long lists.
func (n *node) aligned(l, r []any) bool {
	if len(l) != len(r) || len(l) > few {
		return false
	}
	for i := range l {
		if n.itemError(l[i]) != nil || n.itemError(r[i]) != nil || !n.sameItem(l[i], r[i]) {
			return false
		}
		for _, before := range l[:i] {
			if n.sameItem(before, l[i]) {
				return false
			}
		}
	}
	return true
}
