package expression

import (
	"fmt"
	"slices"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/stdlib"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/library"
)

// runner is what evaluates a checked expression. The error is that of the expression.
type runner interface {
	run(in *Variables) (v ref.Val, cost uint64, err error)
}

// planFor returns the runner of a checked expression. Types have been checked, and values tell theirs themselves: the shared
// environment is enough to find functions.
//
// The library's own programs are right for every expression, but each of them keeps a table of all functions, 15 KB. They
// run what they alone can: functions that come with their own way to be evaluated, or to be counted. Expressions that use
// nothing but the standard functions, which most do, are plans.
func planFor(ast *cel.Ast) (runner, error) {
	p := plans()
	if p.err != nil {
		return nil, p.err
	}
	for _, r := range ast.NativeRep().ReferenceMap() {
		if slices.ContainsFunc(r.OverloadIDs, func(id string) bool { return !p.standard[id] }) {
			return programFor(ast)
		}
	}
	planned, err := p.interpreter.NewInterpretable(ast.NativeRep(), p.options...)
	if err != nil {
		return nil, err
	}
	watched, ok := planned.(*interpreter.ObservableInterpretable)
	if !ok {
		return programFor(ast)
	}
	return plan{watched}, nil
}

// plan is a tree of steps, each of which knows its function.
type plan struct {
	steps *interpreter.ObservableInterpretable
}

func (p plan) run(in *Variables) (v ref.Val, cost uint64, err error) {
	frame, err := interpreter.NewExecutionFrame(in)
	if err != nil {
		return nil, 0, ErrUncounted
	}
	defer frame.Close()
	var spent *interpreter.CostTracker
	defer func() {
		switch r := recover().(type) {
		case nil:
		case interpreter.EvalCancelledError: // this is how an evaluation is broken off
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

// planning is what plans are made with: the functions of the shared environment, and what its programs do with steps.
type planning struct {
	standard    map[string]bool // by overload
	interpreter interpreter.Interpreter
	options     []interpreter.PlannerOption
	err         error
}

var plans = sync.OnceValue(func() (p planning) {
	env := shared()
	functions, standard := interpreter.NewDispatcher(), map[string]bool{}
	for _, f := range env.Functions() { // also of standard functions, which options of the environment may replace
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
			interpreter.CostObserver(interpreter.CostTrackerFactory(tracker.Clone)),
		},
		err: err,
	}
})

// program is what the library makes of an expression.
type program struct{ cel.Program }

func programFor(ast *cel.Ast) (runner, error) {
	p, err := shared().Program(ast, cel.CostLimit(celconfig.PerCallLimit), cel.CostTracking(&library.CostEstimator{}))
	if err != nil {
		return nil, err
	}
	return program{p}, nil
}

func (p program) run(in *Variables) (ref.Val, uint64, error) {
	v, details, err := p.Eval(in)
	if details == nil || details.ActualCost() == nil {
		return nil, 0, ErrUncounted
	}
	return v, *details.ActualCost(), err
}
