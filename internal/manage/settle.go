package manage

import (
	"fmt"
	"slices"
)

// Sets that come with an object may be spelt in many ways, and may be older than the schema. Nearly all are as they should
// be, which isSettled finds out without changing or allocating anything.

// isSettled tells for certain whether a set is spelt as fields are to be, and has no members below what n, which may be
// nil, owns as a whole.
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

// reconcilable returns the schema under an element of a set as far as sets are adapted to it; nil where they are not.
func (n *node) reconcilable(element string) *node {
	if n == nil || n.kinds&kindMap != 0 && n.untyped {
		return nil
	}
	return n.below(element)
}

// isWhole tells whether a value is owned as a whole, as far as that can be said without seeing it.
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

// respell returns a set in the spelling of fields. Elements of types that nobody knows yet are dropped.
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
		// The same element in two spellings: the last says what is below it.
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

// respelt joins what two spellings of an element say.
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

// reconcile adapts a set to the schema: who owned parts of what is now owned as a whole, owns the whole.
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

// sortedKeys are the keys of a map in order.
func sortedKeys[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
