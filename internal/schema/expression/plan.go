package expression

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/stdlib"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/library"
)

// runner evaluates a checked expression. The error is that of the expression.
type runner interface {
	run(ctx context.Context, in *Variables) (v ref.Val, cost uint64, err error)
}

// planFor returns the runner of a checked expression. Types have been checked, and values have
// their types, so the shared environment suffices to find functions.
//
// The library's programs are correct for all expressions, but each of them retains a table of all
// functions, 15 KB. They are used for functions with their own evaluation or cost. Expressions that
// only use standard functions, which most do, become plans.
func planFor(compiled *cel.Ast) (runner, error) {
	p := plans()
	if p.err != nil {
		return nil, p.err
	}
	for _, r := range compiled.NativeRep().ReferenceMap() {
		if slices.ContainsFunc(r.OverloadIDs, func(id string) bool { return !p.standard[id] }) {
			return programFor(compiled)
		}
	}
	planned, err := p.interpreter.NewInterpretable(compiled.NativeRep(), p.options...)
	if err != nil {
		return nil, err
	}
	watched, ok := planned.(*interpreter.ObservableInterpretable)
	if !ok {
		return programFor(compiled)
	}
	return plan{watched, loops(compiled)}, nil
}

// plan is a tree of steps, each of which has its function.
type plan struct {
	steps *interpreter.ObservableInterpretable
	loops bool
}

// loops reports whether an expression iterates over lists or maps, and so may take long.
func loops(compiled *cel.Ast) bool {
	found := false
	ast.PreOrderVisit(compiled.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		found = found || e.Kind() == ast.ComprehensionKind
	}))
	return found
}

func (p plan) run(ctx context.Context, in *Variables) (v ref.Val, cost uint64, err error) {
	frame, err := interpreter.NewExecutionFrame(in)
	if err != nil {
		return nil, 0, ErrUncounted
	}
	defer frame.Close()
	if p.loops {
		if err := frame.SetContext(ctx, celconfig.CheckFrequency); err != nil {
			return nil, 0, ErrUncounted
		}
	}
	var spent *interpreter.CostTracker
	defer func() {
		switch r := recover().(type) {
		case nil:
		case interpreter.EvalCancelledError: // the library panics to abort an evaluation
			err = r
		default:
			err = fmt.Errorf("internal error: %v", r)
		}
		if spent == nil {
			v, cost, err = nil, 0, ErrUncounted
			return
		}
		cost = spent.ActualCost()
	}()
	v = p.steps.ObserveExec(frame, func(state any) {
		if tracker, ok := state.(*interpreter.CostTracker); ok {
			spent = tracker
		}
	})
	if failed, ok := v.(*types.Err); ok {
		err = failed
	}
	return v, cost, err
}

// planning has the parts that make plans: the functions of the shared environment, and its options
// for steps.
type planning struct {
	standard    map[string]bool // by ID of the overload
	interpreter interpreter.Interpreter
	options     []interpreter.PlannerOption
	err         error
}

var plans = sync.OnceValue(func() (p planning) {
	env := shared()
	functions, standard := interpreter.NewDispatcher(), map[string]bool{}
	for _, f := range env.Functions() { // includes standard functions, which options of the environment may replace
		overloads, err := f.Bindings()
		if err == nil {
			err = functions.Add(overloads...)
		}
		if err != nil {
			return planning{err: err}
		}
	}
	for _, f := range stdlib.Functions() {
		for _, o := range f.OverloadDecls() {
			standard[o.ID()] = true
		}
	}
	attributes := interpreter.NewAttributeFactory(env.Container, env.CELTypeAdapter(), env.CELTypeProvider())
	tracker, err := interpreter.NewCostTracker(&library.CostEstimator{}, interpreter.PresenceTestHasCost(false),
		interpreter.CostTrackerLimit(celconfig.PerCallLimit))
	return planning{
		standard:    standard,
		interpreter: interpreter.NewInterpreter(functions, env.Container, env.CELTypeProvider(), env.CELTypeAdapter(), attributes),
		options: []interpreter.PlannerOption{
			interpreter.Optimize(),
			interpreter.CompileRegexConstants(interpreter.MatchesRegexOptimization),
			interpreter.InterruptableEval(),
			interpreter.CostObserver(interpreter.CostTrackerFactory(tracker.Clone)),
		},
		err: err,
	}
})

// program is an expression as a program of the library.
type program struct {
	cel.Program
	loops bool
}

func programFor(compiled *cel.Ast) (runner, error) {
	p, err := shared().Program(compiled, cel.CostLimit(celconfig.PerCallLimit), cel.CostTracking(&library.CostEstimator{}),
		cel.InterruptCheckFrequency(celconfig.CheckFrequency))
	if err != nil {
		return nil, err
	}
	return program{p, loops(compiled)}, nil
}

func (p program) run(ctx context.Context, in *Variables) (v ref.Val, cost uint64, err error) {
	var details *cel.EvalDetails
	if p.loops {
		v, details, err = p.ContextEval(ctx, in)
	} else {
		v, details, err = p.Eval(in)
	}
	if details == nil || details.ActualCost() == nil {
		return nil, 0, ErrUncounted
	}
	return v, *details.ActualCost(), err
}
