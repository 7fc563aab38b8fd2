package policy

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/lazy"
)

// An evaluation evaluates expressions of one policy, which share a budget and the policy's
// variables. Variables are evaluated on first use. It implements interpreter.Activation.
type evaluation struct {
	ctx       context.Context
	about     *shown
	params    any // nil for none
	variables ref.Val
	spent     int64 // cost of variables that has not been deducted from the budget
	budget    int64
}

func newEvaluation(ctx context.Context, x *expressions, about *shown, params any, budget int64) *evaluation {
	e := &evaluation{ctx: ctx, about: about, params: params, budget: budget}
	values := lazy.NewMapValue(x.variables.object)
	for name, p := range x.variables.programs {
		values.Append(name, func(*lazy.MapValue) ref.Val { return e.variable(name, p) })
	}
	e.variables = values
	return e
}

// ResolveName implements interpreter.Activation.
func (e *evaluation) ResolveName(name string) (any, bool) {
	switch name {
	case plugincel.ObjectVarName:
		return e.about.object, true
	case plugincel.OldObjectVarName:
		return e.about.old, true
	case plugincel.ParamsVarName:
		return e.params, true
	case plugincel.RequestVarName:
		return e.about.request(), true
	case plugincel.NamespaceVarName:
		return e.about.namespace(), true
	case plugincel.AuthorizerVarName:
		return e.about.authorizer(), true
	case plugincel.RequestResourceAuthorizerVarName:
		return e.about.resourceAuthorizer(), true
	case plugincel.VariableVarName:
		return e.variables, true
	}
	return nil, false
}

// Parent implements interpreter.Activation.
func (e *evaluation) Parent() interpreter.Activation { return nil }

// errSpent ends an evaluation whose budget is exhausted.
var errSpent = &apiservercel.Error{
	Type:   apiservercel.ErrorTypeInvalid,
	Detail: "validation failed due to running out of cost budget, no further validation rules will be run",
	Cause:  apiservercel.ErrOutOfBudget,
}

// run evaluates an expression. err is the reason why it has no value; end, if not nil, also ends
// the evaluation of all later expressions.
func (e *evaluation) run(p *program) (v ref.Val, err, end error) {
	if p.err != nil {
		return nil, &apiservercel.Error{Type: apiservercel.ErrorTypeInvalid, Detail: fmt.Sprintf("compilation error: %v", p.err), Cause: p.err}, nil
	}
	v, details, err := p.program.ContextEval(e.ctx, e)
	spent := e.spent
	if e.spent = 0; spent > e.budget {
		return nil, nil, errSpent
	}
	e.budget -= spent
	if details == nil {
		return nil, nil, &apiservercel.Error{
			Type:   apiservercel.ErrorTypeInternal,
			Detail: fmt.Sprintf("runtime cost could not be calculated for expression: %v, no further expression will be run", p.text),
		}
	}
	switch cost := details.ActualCost(); {
	case cost == nil:
		return nil, nil, &apiservercel.Error{
			Type:   apiservercel.ErrorTypeInvalid,
			Detail: fmt.Sprintf("runtime cost could not be calculated for expression: %v, no further expression will be run", p.text),
			Cause:  apiservercel.ErrOutOfBudget,
		}
	case *cost > math.MaxInt64 || int64(*cost) > e.budget:
		return nil, nil, errSpent
	default:
		e.budget -= int64(*cost)
	}
	if err != nil {
		return nil, &apiservercel.Error{
			Type:   apiservercel.ErrorTypeInvalid,
			Detail: fmt.Sprintf("expression '%v' resulted in error: %v", p.text, err),
		}, nil
	}
	return v, nil, nil
}

// variable evaluates a variable.
func (e *evaluation) variable(name string, p program) ref.Val {
	if p.err != nil {
		return types.NewErr("composited variable %q fails to compile: %v", name, p.err)
	}
	v, details, err := p.program.ContextEval(e.ctx, e)
	if details == nil {
		return types.NewErr("unable to get evaluation details of variable %q", name)
	}
	cost := details.ActualCost()
	if cost == nil {
		return types.NewErr("unable to calculate cost of variable %q", name)
	}
	e.spent += int64(min(*cost, uint64(math.MaxInt64-e.spent)))
	if err != nil {
		return types.NewErr("composited variable %q fails to evaluate: %v", name, err)
	}
	return v
}

// conditionsHold reports whether the policy's match conditions are true. One false condition
// decides. If one cannot be evaluated, and none is false, the result is an error unless the
// failurePolicy is Ignore.
func (x *expressions) conditionsHold(ctx context.Context, p *policy, about *shown, params any) (bool, error) {
	if len(x.conditions) == 0 {
		return true, nil
	}
	e := newEvaluation(ctx, x, about.toConditions(), params, celconfig.RuntimeCELCostBudgetMatchConditions)
	values, errs, end := make([]ref.Val, len(x.conditions)), []error(nil), error(nil)
	for i := range x.conditions {
		var err error
		if values[i], err, end = e.run(&x.conditions[i].program); end != nil {
			errs, values = []error{end}, nil // earlier results do not count
			break
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	for _, v := range values {
		if v == types.False {
			return false, nil
		}
	}
	if len(errs) == 0 {
		return true, nil
	}
	if p.ignores {
		return false, nil
	}
	if end != nil {
		return false, end
	}
	return false, utilerrors.NewAggregate(errs)
}

// fatal reports whether messages are not evaluated after an error.
func fatal(err error) bool {
	return errors.Is(err, apiservercel.ErrInternal) || errors.Is(err, apiservercel.ErrOutOfBudget)
}
