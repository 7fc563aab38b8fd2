package schema

import (
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

// Evaluate judges an object by the conditions in x-kubernetes-validations. old is the object that is to be replaced, or
// nil. found is what is wrong with the object otherwise: with some errors conditions are not evaluated, because they could
// not rely on what the schema promises them.
//
// Errors about values that old holds as well are not returned but handed to warn, which may be nil, unless the condition
// is about the change (KEP-4008).
func (p *Program) Evaluate(obj, old map[string]any, found field.ErrorList, warn func(string)) field.ErrorList {
	if p.guard == nil || p.guard() == nil {
		return nil
	}
	if blocked(found) {
		return field.ErrorList{field.Invalid(nil, nil, "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation")}
	}
	e := evaluation{program: p, obj: obj, old: old, budget: celconfig.RuntimeCELCostBudget, warn: warn}
	e.run()
	return e.errs
}

// run visits the object.
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

// blocked tells whether an object breaks rules that expressions rely on.
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
	program  *Program
	obj, old map[string]any
	errs     field.ErrorList
	budget   int64 // of cost that is left; negative when nothing more is evaluated
	warn     func(string)
	way      way
}

// value visits a value and all below it, in the order of Kubernetes. It returns false when the budget is used up.
func (e *evaluation) value(g *guard, v, old any, at *path) bool {
	if g == nil || v == nil {
		return true
	}
	if len(g.conditions) > 0 && !e.conditions(g, v, old, at) {
		return false
	}
	for _, alternative := range g.allOf {
		back := e.way.apart() // errors of alternatives are excused by the values around only
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

// below visits a child of the value at the end of the way.
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

// conditions evaluates the conditions of one place on the value there.
func (e *evaluation) conditions(g *guard, v, old any, at *path) bool {
	fail := func(format string, args ...any) {
		e.errs = append(e.errs, field.Invalid(at.field(), g.typeName(), fmt.Sprintf(format, args...)))
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
		result, cost, err := c.test.Eval(variables)
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
			// Kubernetes shows explanations the old value itself, never an optional one.
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

// spend takes a cost off the budget, if there is enough left.
func (e *evaluation) spend(cost uint64) bool {
	if cost > math.MaxInt64 || int64(cost) > e.budget {
		return false
	}
	e.budget -= int64(cost)
	return true
}

// broken reports a value that breaks a condition. It returns false when the budget is used up.
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

// explain evaluates a messageExpression. Errors but errInexplicable end the evaluation.
func (e *evaluation) explain(c *compiledCondition, in *expression.Variables) (string, error) {
	var v ref.Val
	v, cost, err := c.explain.Eval(in)
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

// typeName is the declared type, as errors show it in the place of a value.
func (g *guard) typeName() string {
	switch {
	case g.node.types == 0, g.node.intOrString():
		return ""
	}
	return g.node.typeNames()
}
