package schema

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/kapok-dev/kapok/internal/schema/expression"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

// Evaluate validates an object with the conditions in x-kubernetes-validations. old is the object
// that it replaces, or nil. found are the other errors of the object: after some errors conditions
// are not evaluated, because they rely on the schema.
//
// Errors about unchanged values are passed to warn, which may be nil, unless the condition uses
// oldSelf (KEP-4008).
//
// If the context ends, Evaluate returns only some of the errors.
func (p *Program) Evaluate(ctx context.Context, obj, old map[string]any, found field.ErrorList, warn func(string)) field.ErrorList {
	if p.guard == nil || p.guard() == nil {
		return nil
	}
	if blocked(found) {
		return field.ErrorList{field.Invalid(nil, nil, "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation")}
	}
	e := evaluation{ctx: ctx, program: p, obj: obj, old: old, budget: celconfig.RuntimeCELCostBudget, warn: warn}
	e.run()
	return e.errs
}

// run evaluates the conditions of the object.
func (e *evaluation) run() {
	var before any
	if e.old != nil {
		before = e.old
	}
	e.way.start(e.program.root, e.obj, e.old)
	if !e.value(e.program.guard(), e.obj, before, nil) {
		e.budget = -1
	}
}

// blocked reports whether an object has errors that conditions rely on the absence of.
func blocked(errs field.ErrorList) bool {
	return slices.ContainsFunc(errs, func(err *field.Error) bool {
		switch err.Type {
		case field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid:
			return true
		}
		return false
	})
}

// evaluation is the state of one call of Evaluate.
type evaluation struct {
	ctx      context.Context // of this call only
	program  *Program
	obj, old map[string]any
	errs     field.ErrorList
	budget   int64 // remaining cost; negative after the evaluation has been stopped
	warn     func(string)
	way      way
}

// value visits a value and all values below it, in Kubernetes' order. It returns false when the
// evaluation must stop.
func (e *evaluation) value(g *guard, v, old any, at *path) bool {
	if g == nil || v == nil {
		return true
	}
	if len(g.conditions) > 0 && !e.conditions(g, v, old, at) {
		return false
	}
	for _, alternative := range g.allOf {
		back := e.way.apart() // only the enclosing values excuse errors of alternatives
		ok := e.value(alternative, v, old, at)
		if e.way[len(e.way)-1] = back; !ok {
			return false
		}
	}
	switch v := v.(type) {
	case []any:
		return g.items == nil || e.items(g, v, old, at)
	case map[string]any:
		return e.properties(g, v, old, at)
	}
	return true
}

// below visits a child of the last value on the way.
func (e *evaluation) below(p place, g *guard, old any, at *path) bool {
	e.way = append(e.way, p)
	ok := e.value(g, p.value, old, at)
	e.way = e.way[:len(e.way)-1]
	return ok
}

func (e *evaluation) items(g *guard, list []any, old any, at *path) bool {
	before := correlation{node: g.node, old: old}
	step := path{up: at, kind: stepIndex}
	for i, v := range list {
		step.index = i
		var oldItem any
		if g.items.usesOld && old != nil {
			if c := before.item(v); c != nil {
				oldItem = c.old
			}
		}
		if !e.below(place{value: v, item: true}, g.items, oldItem, &step) {
			return false
		}
	}
	return true
}

func (e *evaluation) properties(g *guard, obj map[string]any, old any, at *path) bool {
	before, _ := old.(map[string]any)
	if g.additional != nil {
		step := path{up: at, kind: stepKey}
		for _, k := range slices.Sorted(maps.Keys(obj)) {
			step.key = k
			if !e.below(place{value: obj[k], key: k}, g.additional, before[k], &step) {
				return false
			}
		}
	}
	step := path{up: at}
	for i := range g.fields {
		f := &g.fields[i]
		if v := obj[f.name]; v != nil {
			step.key = f.name
			if !e.below(place{value: v, key: f.name}, f.guard, before[f.name], &step) {
				return false
			}
		}
	}
	return true
}

// conditions evaluates the conditions of one place.
func (e *evaluation) conditions(g *guard, v, old any, at *path) bool {
	fail := func(format string, args ...any) {
		e.errs = append(e.errs, field.Invalid(at.field(), g.typeName(), fmt.Sprintf(format, args...)))
	}
	if e.ctx.Err() != nil {
		return false
	}
	if g.typed == nil {
		fail("rule compiler initialization error: failed to convert to declType for CEL validation rules")
		return true
	}
	if e.budget <= 0 {
		fail(outOfBudget)
		return false
	}
	g.prepare()
	in := &expression.Variables{Self: expose(v, g.seen)}
	optional := in
	if g.compares {
		optional = &expression.Variables{Self: in.Self, Old: types.OptionalNone}
		if old != nil {
			in.Old = expose(old, g.seen)
			optional.Old = types.OptionalOf(in.Old)
		}
	}
	for i := range g.compiled {
		c := &g.compiled[i]
		switch {
		case c.err != nil:
			fail("rule compile error: %v", c.err)
			continue
		case c.test == nil, c.usesOld() && old == nil && !c.optionalOld:
			continue
		}
		variables := in
		if c.optionalOld {
			variables = optional
		}
		result, cost, err := c.test.Eval(e.ctx, variables)
		if e.ctx.Err() != nil {
			return false
		}
		if errors.Is(err, expression.ErrUncounted) {
			e.errs = append(e.errs, field.InternalError(at.field(),
				fmt.Errorf("%w for validation rule: %v, no further validation rules will be run", err, c.name())))
			return false
		}
		if !e.spend(cost) {
			fail(outOfBudget)
			return false
		}
		switch {
		case err == nil && result == types.True:
		case err == nil:
			// Kubernetes passes the old value itself to explanations, even if it is optional in the
			// rule.
			if !e.broken(c, in, g, v, at) {
				return false
			}
		case expression.Mismatched(err):
			fail("'%v': call arguments did not match a supported operator, function or macro signature for rule: %v", err, c.name())
		case expression.TooExpensive(err):
			fail("'%v': no further validation rules will be run due to call cost exceeds limit for rule: %v", err, c.name())
			return false
		default:
			fail("%v evaluating rule: %v", err, c.name())
		}
	}
	return true
}

const outOfBudget = "validation failed due to running out of cost budget, no further validation rules will be run"

// spend subtracts a cost from the budget, if enough is left.
func (e *evaluation) spend(cost uint64) bool {
	if cost > math.MaxInt64 || int64(cost) > e.budget {
		return false
	}
	e.budget -= int64(cost)
	return true
}

// broken reports a value that violates a condition. It returns false when the evaluation must stop.
func (e *evaluation) broken(c *compiledCondition, in *expression.Variables, g *guard, v any, at *path) bool {
	place := at.field()
	if c.at != "" {
		place = place.Child(c.at)
	}
	report := func(err *field.Error) {
		switch {
		case c.usesOld() || !e.way.unchanged():
			e.errs = append(e.errs, err)
		case e.warn != nil:
			e.warn(err.Error())
		}
	}
	detail := c.detail()
	if c.explain != nil {
		text, err := e.explain(c, in)
		switch {
		case err == nil:
			detail = text
		case errors.Is(err, errInexplicable):
		case errors.Is(err, expression.ErrUncounted):
			report(field.InternalError(place, fmt.Errorf("%w for messageExpression: %q", err, c.explanation)))
			return false
		default:
			report(field.Invalid(place, g.typeName(), err.Error()))
			return false
		}
	}
	if g.node.types == typeObject || g.node.types == typeArray {
		v = field.OmitValueType{}
	}
	report(c.broken(place, v, detail))
	return true
}

// explain evaluates a messageExpression. Errors except errInexplicable stop the evaluation.
func (e *evaluation) explain(c *compiledCondition, in *expression.Variables) (string, error) {
	var v ref.Val
	v, cost, err := c.explain.Eval(e.ctx, in)
	switch {
	case errors.Is(err, expression.ErrUncounted):
		return "", err
	case !e.spend(cost):
		return "", errors.New("messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run")
	case err != nil && expression.TooExpensive(err):
		return "", fmt.Errorf("no further validation rules will be run due to call cost exceeds limit for messageExpression: %q", c.explanation)
	case err != nil:
		return "", errInexplicable
	}
	return explanationOf(v)
}

// typeName returns the declared type, which errors show in place of the value.
func (g *guard) typeName() string {
	switch {
	case g.node.types == 0, g.node.intOrString():
		return ""
	}
	return g.node.typeNames()
}
