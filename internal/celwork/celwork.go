// Package celwork estimates the work to compile an expression of the Common Expression Language.
//
// Kubernetes limits the length of expressions and the estimated cost of their evaluation, but not
// the work of the compiler, which can be far from linear:
//
//   - optMap and optFlatMap copy their receiver: a.optMap(x, x) becomes a.hasValue() ?
//     optional.of(a.value()) : optional.none(), so that a chain of n calls is a tree of 2^n nodes.
//   - The checker binds a type variable for each generic call and for each empty list or map, and
//     copies all bindings for each overload that it tries.
//   - It formats types as text, and walks them as trees: [1].map(x, {x: x}).map(y, {y: y}) doubles
//     the type with each call.
//   - Repeats in a regular expression multiply the size of its program.
//   - Up to 100 errors show their line, in time that grows with the square of its length.
//
// Callers estimate an expression that a request contains before they compile it. An estimate needs
// only the syntax and takes time linear in the expression. It is an upper bound within the
// precision of its units, except for the messages of errors, which Failed counts.
package celwork

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/parser"
)

const (
	// Limit bounds the work of one expression, in units of about 50 bytes of allocations and 50 ns.
	// Of 1,258 expressions of Kubernetes, its tests and published definitions, the largest takes
	// 19,567.
	Limit = 2_000_000
	// ObjectLimit bounds the work of all expressions of an object.
	ObjectLimit = 10_000_000
	// ExpressionWork is the work to compile any expression.
	ExpressionWork = 1000

	// nodeWork is the work to parse, check and plan one node.
	nodeWork = 80
	// typeWork is the work to walk a type, for the square of its size.
	typeWork = 2
	// most is the result for all greater numbers.
	most = 1 << 40
)

// A Budget bounds the work of all expressions of one object. Its methods are not safe for
// concurrent use.
type Budget struct {
	ctx   context.Context
	limit int
	spent int
	// declared is the greatest size of the types of declared variables.
	declared int
}

// NewBudget returns a full budget of a request with the context ctx.
func NewBudget(ctx context.Context) *Budget { return NewBudgetOf(ctx, ObjectLimit) }

// NewBudgetOf is NewBudget with a limit other than [ObjectLimit].
func NewBudgetOf(ctx context.Context, limit int) *Budget { return &Budget{ctx: ctx, limit: limit} }

// Spend returns the text to compile for an expression, which differs from it in white space only.
// It returns an error if the expression must not be compiled, as it exceeds [Limit] or, with those
// before it, [ObjectLimit], or if the context has ended.
func (b *Budget) Spend(text string) (string, error) {
	_, err := b.spend(text)
	if err != nil {
		return "", err
	}
	return Hide(text)
}

// Declare is Spend for the expression of a variable that later expressions may refer to.
func (b *Budget) Declare(text string) (string, error) {
	size, err := b.spend(text)
	if err != nil {
		return "", err
	}
	b.declared = max(b.declared, size)
	return Hide(text)
}

// Failed spends the work for an expression that did not compile. compiled is what Spend has
// returned, and message the error, which does not show long lines. It returns whether text itself
// may be compiled for a message that does.
func (b *Budget) Failed(text, compiled, message string) bool {
	n := errorsIn(message)
	shown := times(n, lineWork(text))
	again := text != compiled && shown <= shownWork && b.spent <= b.limit
	b.spent = plus(b.spent, n*errorWork)
	if text == compiled {
		b.spent = plus(b.spent, shown)
	}
	if again {
		b.spent = plus(b.spent, shown, Estimate(text))
	}
	return again
}

func (b *Budget) spend(text string) (size int, err error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	if b.spent > b.limit {
		return 0, errObject
	}
	work, size := estimate(text, b.declared)
	if work > Limit {
		return size, errExpression
	}
	if b.spent = plus(b.spent, work); b.spent > b.limit {
		return size, errObject
	}
	return size, nil
}

// The errors of a budget.
var (
	errExpression = fmt.Errorf("compiling the expression takes more than %d units of work: it has too many or too deeply nested macros, lists, maps, comparisons, chained calls of optMap, or repeats in patterns", Limit)
	errObject     = fmt.Errorf("compiling all expressions of the object takes more than %d units of work", ObjectLimit)
)

// Estimate returns the work to compile an expression, at most 2^40.
func Estimate(text string) int {
	work, _ := estimate(text, 0)
	return work
}

// estimate returns the work of an expression, and the size of its type. declared is the size of the
// types of declared variables. The compiler expands macros even in an expression with syntax
// errors, so these are estimated as well.
func estimate(text string, declared int) (work, size int) {
	p, err := parser.NewParser(parser.EnableOptionalSyntax(true))
	if err != nil {
		return most, 1
	}
	parsed, _ := p.Parse(common.NewTextSource(text))
	if parsed.Expr().Kind() == ast.UnspecifiedExprKind {
		// The parser has no tree, as when it is too deep. Macros may be expanded by then.
		if strings.Contains(text, "optMap") || strings.Contains(text, "optFlatMap") {
			return most, 1
		}
		return ExpressionWork + len(text), 1
	}
	w := walk{functions: functionTable(), declared: max(declared, declaredSize)}
	total, result := w.expr(parsed.Expr(), nil)
	return plus(ExpressionWork+len(text), total.work(), w.patterns), result.size
}

// plus and times saturate.
func plus(list ...int) (sum int) {
	for _, n := range list {
		sum = min(sum+n, most)
	}
	return sum
}

func times(a, b int) int {
	if a != 0 && b > most/a {
		return most
	}
	return min(a*b, most)
}
