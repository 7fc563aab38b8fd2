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
	if p.conditions == nil || p.conditions() == nil {
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
	if !e.value(e.program.conditions(), e.obj, before, nil) {
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
func (e *evaluation) value(t *conditionTree, v, old any, at *path) bool {
	if t == nil || v == nil {
		return true
	}
	if len(t.conditions) > 0 && !e.conditions(t, v, old, at) {
		return false
	}
	for _, alternative := range t.allOf {
		back := e.way.apart() // only the enclosing values excuse errors of alternatives
		ok := e.value(alternative, v, old, at)
		if e.way[len(e.way)-1] = back; !ok {
			return false
		}
	}
	switch v := v.(type) {
	case []any:
		return t.items == nil || e.items(t, v, old, at)
	case map[string]any:
		return e.properties(t, v, old, at)
	}
	return true
}

// below visits a child of the last value on the way.
func (e *evaluation) below(p place, t *conditionTree, old any, at *path) bool {
	e.way = append(e.way, p)
	ok := e.value(t, p.value, old, at)
	e.way = e.way[:len(e.way)-1]
	return ok
}

func (e *evaluation) items(t *conditionTree, list []any, old any, at *path) bool {
	before := correlation{node: t.node, old: old}
	step := path{up: at, kind: stepIndex}
	for i, v := range list {
		step.index = i
		var oldItem any
		if t.items.usesOld && old != nil {
			if c := before.item(v); c != nil {
				oldItem = c.old
			}
		}
		if !e.below(place{value: v, item: true}, t.items, oldItem, &step) {
			return false
		}
	}
	return true
}

func (e *evaluation) properties(t *conditionTree, obj map[string]any, old any, at *path) bool {
	before, _ := old.(map[string]any)
	if t.additional != nil {
		step := path{up: at, kind: stepKey}
		for _, k := range slices.Sorted(maps.Keys(obj)) {
			step.key = k
			if !e.below(place{value: obj[k], key: k}, t.additional, before[k], &step) {
				return false
			}
		}
	}
	step := path{up: at}
	for i := range t.fields {
		f := &t.fields[i]
		if v := obj[f.name]; v != nil {
			step.key = f.name
			if !e.below(place{value: v, key: f.name}, f.tree, before[f.name], &step) {
				return false
			}
		}
	}
	return true
}

// conditions evaluates the conditions of one place.
func (e *evaluation) conditions(t *conditionTree, v, old any, at *path) bool {
	fail := func(format string, args ...any) {
		e.errs = append(e.errs, field.Invalid(at.field(), t.typeName(), fmt.Sprintf(format, args...)))
	}
	if e.ctx.Err() != nil {
		return false
	}
	if t.typed == nil {
		fail("rule compiler initialization error: failed to convert to declType for CEL validation rules")
		return true
	}
	if e.budget <= 0 {
		fail(outOfBudget)
		return false
	}
	t.prepare()
	in := &expression.Variables{Self: expose(v, t.seen)}
	optional := in
	if t.compares {
		optional = &expression.Variables{Self: in.Self, Old: types.OptionalNone}
		if old != nil {
			in.Old = expose(old, t.seen)
			optional.Old = types.OptionalOf(in.Old)
		}
	}
	for i := range t.compiled {
		c := &t.compiled[i]
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
			if !e.broken(c, in, t, v, at) {
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
func (e *evaluation) broken(c *compiledCondition, in *expression.Variables, t *conditionTree, v any, at *path) bool {
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
			report(field.Invalid(place, t.typeName(), err.Error()))
			return false
		}
	}
	if t.node.types == typeObject || t.node.types == typeArray {
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
func (t *conditionTree) typeName() string {
	switch {
	case t.node.types == 0, t.node.intOrString():
		return ""
	}
	return t.node.typeNames()
}
