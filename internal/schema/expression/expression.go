package expression

import (
	"errors"
	"strings"

	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
)

// ErrUncounted is returned by Eval when nobody knows what the evaluation has cost.
var ErrUncounted = errors.New("runtime cost could not be calculated")

// An Expression is compiled and can be evaluated.
type Expression struct {
	runner  runner
	usesOld bool
}

// UsesOld tells whether the expression asks for oldSelf.
func (e *Expression) UsesOld() bool { return e.usesOld }

// Eval evaluates the expression. The cost counts also if there is an error, which may be one of those that [Mismatched] and
// [TooExpensive] tell apart, or ErrUncounted.
func (e *Expression) Eval(in *Variables) (v ref.Val, cost uint64, err error) { return e.runner.run(in) }

// Mismatched tells errors about operands that an operator does not take, which only values of dynamic types can cause.
func Mismatched(err error) bool { return strings.HasPrefix(err.Error(), "no such overload") }

// TooExpensive tells errors about an evaluation that was broken off at the limit of its cost.
func TooExpensive(err error) bool {
	return strings.HasPrefix(err.Error(), "operation cancelled: actual cost limit exceeded")
}

// Variables are what an expression is about.
type Variables struct {
	Self, Old ref.Val // without Old, oldSelf is not known
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
