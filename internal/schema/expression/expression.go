package expression

import (
	"context"
	"errors"
	"strings"

	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
)

// ErrUncounted is returned by Eval if the cost of the evaluation is unknown.
var ErrUncounted = errors.New("runtime cost could not be calculated")

// An Expression is a compiled expression.
type Expression struct {
	runner  runner
	usesOld bool
}

// UsesOld reports whether the expression refers to oldSelf.
func (e *Expression) UsesOld() bool { return e.usesOld }

// Eval evaluates the expression until the context ends; an expression without loops is always
// evaluated to its end. The cost is also valid with an error. The error may be one that
// [Mismatched] or [TooExpensive] reports, or ErrUncounted.
func (e *Expression) Eval(ctx context.Context, in *Variables) (v ref.Val, cost uint64, err error) {
	return e.runner.run(ctx, in)
}

// Mismatched reports whether an error is about operands that an operator does not accept, which
// only occurs for values of dynamic types.
func Mismatched(err error) bool { return strings.HasPrefix(err.Error(), "no such overload") }

// TooExpensive reports whether an error is about an evaluation that exceeded its cost limit.
func TooExpensive(err error) bool {
	return strings.HasPrefix(err.Error(), "operation cancelled: actual cost limit exceeded")
}

// Variables are the variables of an expression.
type Variables struct {
	Self, Old ref.Val // oldSelf is undefined if Old is nil
}

var _ interpreter.Activation = (*Variables)(nil)

// ResolveName returns the value of a variable.
func (v *Variables) ResolveName(name string) (any, bool) {
	switch name {
	case selfName:
		return v.Self, true
	case oldSelfName:
		return v.Old, v.Old != nil
	}
	return nil, false
}

// Parent returns nil: there are no other variables.
func (v *Variables) Parent() interpreter.Activation { return nil }
