package schema

import (
	"strings"
	"sync"

	"github.com/kapok-dev/kapok/internal/schema/expression"

	apiservercel "k8s.io/apiserver/pkg/cel"
)

// guard evaluates the conditions on a value and on the values below it. There is a guard for each
// place with conditions, and for the places above these: no other places are visited. A guard
// compiles its conditions for its first value.
//
// Conditions below allOf apply to the values of the schema that contains the allOf.
type guard struct {
	node       *node // the schema of the value
	seen       *node // the schema of the value as seen by expressions
	typed      *node // the schema of its type as seen by expressions; nil if they see none
	conditions []condition
	fields     []guardedField // by name
	additional *guard
	items      *guard
	allOf      []*guard
	usesOld    bool // a condition here or below may use the old value

	compile  sync.Once
	compiled []compiledCondition
	compares bool // some compiled condition uses the old value
}

type guardedField struct {
	name  string
	guard *guard
}

// guardFor returns the guard of the objects of a schema.
func guardFor(root *node) *guard {
	whole := asResource(root)
	return newGuard(root, root, whole, whole)
}

// newGuard returns the guard of the values of schema n, with the conditions in from and below it;
// from is n or one of its alternatives. It returns nil if there are no conditions.
func newGuard(from, n, seen, typed *node) *guard {
	if !declared(typed) {
		typed = nil
	} else if typed.resource != nil {
		typed = typed.resource
	}
	g := &guard{node: n, seen: seen, typed: typed}
	if from.rules != nil {
		g.conditions = from.rules.conditions
		for i := range g.conditions {
			c := &g.conditions[i]
			g.usesOld = g.usesOld || strings.Contains(c.rule, "oldSelf") || strings.Contains(c.explanation, "oldSelf")
		}
	}
	if from.items != nil && n.items != nil {
		var item *node
		if typed != nil {
			item = typed.items
		}
		g.items = g.add(newGuard(from.items, n.items, n.items, item))
	}
	for _, f := range from.fields {
		child := n.field(f.name)
		if child == nil {
			continue
		}
		if below := typeBelow(typed, child, f.name); below != nil {
			if c := g.add(newGuard(f.node, child, child, below)); c != nil {
				g.fields = append(g.fields, guardedField{f.name, c})
			}
		}
	}
	if from.additional != nil && n.additional != nil {
		var value *node
		if typed != nil {
			value = typed.additional
		}
		g.additional = g.add(newGuard(from.additional, n.additional, n.additional, value))
	}
	if from.rules != nil && from.rules.logic != nil {
		for _, alternative := range from.rules.logic.allOf {
			if c := g.add(newGuard(alternative, n, seen, typed)); c != nil {
				g.allOf = append(g.allOf, c)
			}
		}
	}
	if len(g.conditions) == 0 && g.items == nil && len(g.fields) == 0 && g.additional == nil && len(g.allOf) == 0 {
		return nil
	}
	return g
}

// typeBelow returns the schema of the type of a property as seen by expressions; nil if they see
// none. A property whose name cannot be written in an expression has a type of its own.
func typeBelow(typed, child *node, name string) *node {
	if _, ok := apiservercel.Escape(name); ok {
		if typed == nil || typed.types != typeObject || typed.additional != nil {
			return nil
		}
		child = typed.field(name)
	}
	if !declared(child) {
		return nil
	}
	return child
}

func (g *guard) add(below *guard) *guard {
	if below != nil {
		g.usesOld = g.usesOld || below.usesOld
	}
	return below
}

// prepare compiles the conditions of this place.
func (g *guard) prepare() {
	g.compile.Do(func() {
		scope := expression.NewScope(declare(g.typed))
		g.compiled = make([]compiledCondition, len(g.conditions))
		for i := range g.conditions {
			g.compiled[i] = g.conditions[i].compile(scope, g.node)
			g.compares = g.compares || g.compiled[i].usesOld()
		}
	})
}
