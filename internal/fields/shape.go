package fields

import (
	"strings"
	"sync"

	smd "sigs.k8s.io/structured-merge-diff/v6/schema"
)

// A Type is the part of a kind's schema, in one version, that field management uses: whether values
// are owned as a whole or by their parts, and the keys of list items. It is immutable.
type Type struct{ root *node }

// Types are the types of a schema, by name. They are immutable.
type Types struct{ named map[string]*node }

// Named returns the type with a name; nil if there is none.
func (t *Types) Named(name string) *Type {
	if n := t.named[name]; n != nil {
		return &Type{n}
	}
	return nil
}

// Deduced is the type of objects without a schema: maps are owned by field, lists as a whole.
var Deduced = sync.OnceValue(func() *Type {
	c := newCompiler(nil)
	return &Type{c.named[untypedDeduced]}
})

// kind is a set of kinds of values that a node can describe; other values are null or invalid.
type kind uint8

const (
	kindMap kind = 1 << iota
	kindScalar
	kindList
)

// node is the compiled form of one schema.
type node struct {
	kinds  kind
	scalar smd.Scalar

	fields    []field        // the declared ones, sorted by length of the name, then by name
	defaults  map[string]any // of the declared fields that have one
	element   *node          // for fields that are not declared; nil if these are invalid
	atomicMap bool
	untyped   bool // a map without a schema: sets are not adapted to it

	items      *node
	atomicList bool
	keys       []key    // of the items, sorted by name; none for a set
	keyNames   []string // in the order of the schema, for messages

	open bool // every value fits
}

// field is a declared field.
type field struct {
	element string // the path element, "f:" and the name
	node    *node
}

func (f *field) name() string { return f.element[2:] }

// key is one of the fields that identify the items of a list.
type key struct {
	name     string
	fallback any // default of the key; nil if it has none
}

// field returns a declared field; nil if there is none.
func (n *node) field(name string) *field {
	fields := n.fields
	if len(fields) <= 8 {
		for i := range fields {
			if fields[i].name() == name {
				return &fields[i]
			}
		}
		return nil
	}
	low, high := 0, len(fields)
	for low < high {
		if middle := int(uint(low+high) / 2); compareNames(fields[middle].name(), name) < 0 {
			low = middle + 1
		} else {
			high = middle
		}
	}
	if low == len(fields) || fields[low].name() != name {
		return nil
	}
	return &fields[low]
}

// compareNames orders fields by length of the name, and then by name: names of different lengths
// need not be read.
func compareNames(a, b string) int {
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}

// child returns the schema and the path element of a field, declared or not.
func (n *node) child(name string) (*node, string) {
	if f := n.field(name); f != nil {
		return f.node, f.element
	}
	return n.element, "f:" + name
}

// below returns the schema under a path element, as far as the schema alone determines it; nil if
// it is unknown.
func (n *node) below(element string) *node {
	switch {
	case n.kinds&kindMap != 0:
		if strings.HasPrefix(element, "f:") {
			if f := n.field(element[2:]); f != nil {
				return f.node
			}
		}
		return n.element
	case n.kinds&kindScalar != 0:
		return nil
	case n.kinds&kindList != 0:
		return n.items
	}
	return nil
}

// kindOf returns the kind as which a value is handled. For null, and for a value that does not fit,
// it is the node's preferred kind.
func (n *node) kindOf(v any) kind {
	switch v.(type) {
	case map[string]any:
		if n.kinds&kindMap != 0 {
			return kindMap
		}
	case []any:
		if n.kinds&kindList != 0 {
			return kindList
		}
	case string, bool, int64, float64:
		if n.kinds&kindScalar != 0 {
			return kindScalar
		}
	}
	return n.kinds & -n.kinds // the lowest bit: maps before scalars before lists
}
