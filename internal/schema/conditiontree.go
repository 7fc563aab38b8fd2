package schema

import (
	"strings"
	"sync"

	"github.com/kapok-dev/kapok/internal/schema/expression"

	apiservercel "k8s.io/apiserver/pkg/cel"
)

// conditionTree evaluates the conditions on a value and on the values below it. There is a tree for
// each place with conditions, and for the places above these: no other places are visited. A tree
// compiles its own conditions for its first value.
//
// Conditions below allOf apply to the values of the schema that contains the allOf.
type conditionTree struct {
	node       *node // the schema of the value
	seen       *node // the schema of the value as seen by expressions
	typed      *node // the schema of its type as seen by expressions; nil if they see none
	conditions []condition
	fields     []conditionField // by name
	additional *conditionTree
	items      *conditionTree
	allOf      []*conditionTree
	usesOld    bool // a condition here or below may use the old value

	compile  sync.Once
	compiled []compiledCondition
	compares bool // some compiled condition uses the old value
}

type conditionField struct {
	name string
	tree *conditionTree
}

// conditionsOf returns the tree for the objects of a schema.
func conditionsOf(root *node) *conditionTree {
	whole := asResource(root)
	return newConditionTree(root, root, whole, whole)
}

// newConditionTree returns the tree for the values of schema n, with the conditions in from and
// below it; from is n or one of its alternatives. It returns nil if there are no conditions.
func newConditionTree(from, n, seen, typed *node) *conditionTree {
	if !declared(typed) {
		typed = nil
	} else if typed.resource != nil {
		typed = typed.resource
	}
	t := &conditionTree{node: n, seen: seen, typed: typed}
	if from.rules != nil {
		t.conditions = from.rules.conditions
		for i := range t.conditions {
			c := &t.conditions[i]
			t.usesOld = t.usesOld || strings.Contains(c.rule, "oldSelf") || strings.Contains(c.explanation, "oldSelf")
		}
	}
	if from.items != nil && n.items != nil {
		var item *node
		if typed != nil {
			item = typed.items
		}
		t.items = t.add(newConditionTree(from.items, n.items, n.items, item))
	}
	for _, f := range from.fields {
		child := n.field(f.name)
		if child == nil {
			continue
		}
		if below := typeBelow(typed, child, f.name); below != nil {
			if c := t.add(newConditionTree(f.node, child, child, below)); c != nil {
				t.fields = append(t.fields, conditionField{f.name, c})
			}
		}
	}
	if from.additional != nil && n.additional != nil {
		var value *node
		if typed != nil {
			value = typed.additional
		}
		t.additional = t.add(newConditionTree(from.additional, n.additional, n.additional, value))
	}
	if from.rules != nil && from.rules.logic != nil {
		for _, alternative := range from.rules.logic.allOf {
			if c := t.add(newConditionTree(alternative, n, seen, typed)); c != nil {
				t.allOf = append(t.allOf, c)
			}
		}
	}
	if len(t.conditions) == 0 && t.items == nil && len(t.fields) == 0 && t.additional == nil && len(t.allOf) == 0 {
		return nil
	}
	return t
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

func (t *conditionTree) add(below *conditionTree) *conditionTree {
	if below != nil {
		t.usesOld = t.usesOld || below.usesOld
	}
	return below
}

// prepare compiles the conditions of this place.
func (t *conditionTree) prepare() {
	t.compile.Do(func() {
		scope := expression.NewScope(declare(t.typed))
		t.compiled = make([]compiledCondition, len(t.conditions))
		for i := range t.conditions {
			t.compiled[i] = t.conditions[i].compile(scope, t.node)
			t.compares = t.compares || t.compiled[i].usesOld()
		}
	})
}
