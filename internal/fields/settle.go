package fields

import (
	"fmt"
	"slices"
)

// Sets in a client's object can have any spelling, and can be older than the schema. Nearly all are
// canonical, which isSettled determines without allocating.

// isSettled reports whether a set certainly has the canonical spelling, and no members below values
// that n, which may be nil, owns as a whole.
func isSettled(n *node, set fields, root bool) bool {
	for element, v := range set {
		sub, ok := v.(map[string]any)
		if !ok || sub == nil {
			return false
		}
		if element == self {
			if root || len(sub) > 0 {
				return false
			}
			continue
		}
		if !isSpeltWell(element) {
			return false
		}
		if len(sub) == 0 {
			continue
		}
		if !hasChildren(sub) {
			return false
		}
		below := n.reconcilable(element)
		if below != nil && below.isWhole() {
			return false
		}
		if !isSettled(below, sub, false) {
			return false
		}
	}
	return true
}

// reconcilable returns the schema under an element of a set; nil if sets are not adapted below it.
func (n *node) reconcilable(element string) *node {
	if n == nil || n.kinds&kindMap != 0 && n.untyped {
		return nil
	}
	return n.below(element)
}

// isWhole reports whether a value is owned as a whole, as far as the schema alone determines that.
func (n *node) isWhole() bool {
	switch {
	case n.kinds&kindMap != 0:
		return n.atomicMap && !n.untyped
	case n.kinds&kindScalar != 0:
		return false
	case n.kinds&kindList != 0:
		return n.atomicList
	}
	return false
}

// respell returns a set in canonical spelling. It drops elements of unknown types.
func respell(v any, root bool) (fields, error) {
	set, ok := v.(map[string]any)
	if v != nil && !ok {
		return nil, fmt.Errorf("expected an object, got %T", v)
	}
	out := fields{}
	member := false
	for _, element := range sortedKeys(set) {
		if element == self {
			member = true
			continue
		}
		spelt, known, err := spell(element)
		if err != nil {
			return nil, fmt.Errorf("parsing key as path element: %w", err)
		}
		if !known {
			continue
		}
		sub, err := respell(set[element], false)
		if err != nil {
			return nil, err
		}
		// If an element occurs in two spellings, the last one counts.
		if before, ok := out[spelt]; ok {
			sub = respelt(children(before), sub)
		}
		out[spelt] = sub
	}
	if member && !root && len(out) > 0 {
		out[self] = fields{}
	}
	return out, nil
}

// respelt merges the nodes of two spellings of an element.
func respelt(first, last fields) fields {
	if !hasChildren(last) {
		if hasChildren(first) {
			return withSelf(first, fields{})
		}
		return last
	}
	if isMember(first) {
		return withSelf(last, fields{})
	}
	return last
}

// reconcile adapts a set to the schema: the owner of parts of a value that is now owned as a whole
// becomes the owner of the whole value.
func reconcile(n *node, set fields) fields {
	if n == nil || n.isWhole() {
		return set
	}
	out := make(fields, len(set))
	for element, v := range set {
		sub := children(v)
		if hasChildren(sub) {
			switch below := n.reconcilable(element); {
			case below == nil:
			case below.isWhole():
				sub = fields{}
			default:
				sub = reconcile(below, sub)
			}
		}
		out[element] = sub
	}
	return out
}

// sortedKeys returns the keys of a map in order.
func sortedKeys[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
