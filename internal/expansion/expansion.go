// Package expansion computes by how much the macros of an expression of the Common Expression
// Language enlarge it.
//
// optMap and optFlatMap copy their receiver when the compiler expands them: a.optMap(x, x) becomes
// a.hasValue() ? optional.of(a.value()) : optional.none(). A chain of n calls is therefore a tree of
// 2^n nodes, and 170 bytes take minutes and gigabytes to compile. Kubernetes limits the length of
// expressions and the estimated cost of their evaluation, but not this tree. Callers check an
// expression that a request contains before they compile it.
//
// All functions are safe for concurrent use, and take time linear in the expression.
package expansion

import (
	"fmt"
	"strings"

	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/parser"
)

// Limit is the number of nodes that these macros may add to one expression: by a chain of six calls,
// or by about a hundred calls beside each other.
const Limit = 1000

// saturated is the result of Added for all larger numbers.
const saturated = 1 << 20

// macros are the macros that copy their receiver, with the number of nodes that an expansion adds
// to those of its parts. Other macros add a few nodes and copy nothing.
var macros = map[string]int{"optMap": 7, "optFlatMap": 6}

// Check returns an error if the macros add more than [Limit] nodes to an expression.
func Check(text string) error {
	if n := Added(text); n > Limit {
		return fmt.Errorf("calls of optMap and optFlatMap add more than %d nodes to the expression: chain fewer of them", Limit)
	}
	return nil
}

// Added returns the number of nodes that the macros add to an expression, at most 2^20: the copies
// and a few for each call. The compiler expands macros even in an expression with syntax errors, so
// these are counted there as well.
func Added(text string) int {
	if !strings.Contains(text, "optMap") && !strings.Contains(text, "optFlatMap") {
		return 0
	}
	p, err := parser.NewParser(parser.EnableOptionalSyntax(true))
	if err != nil {
		return saturated
	}
	parsed, _ := p.Parse(common.NewTextSource(text))
	if parsed.Expr().Kind() == ast.UnspecifiedExprKind {
		return saturated // the parser has no tree, as when it is too deep
	}
	var c counter
	c.expanded(parsed.Expr())
	return c.added
}

// counter counts added nodes.
type counter struct{ added int }

// expanded returns the number of nodes of an expression after its macros are expanded.
func (c *counter) expanded(e ast.Expr) int {
	size := 1
	add := func(list ...ast.Expr) {
		for _, e := range list {
			size = min(size+c.expanded(e), saturated)
		}
	}
	switch e.Kind() {
	case ast.CallKind:
		call := e.AsCall()
		add(call.Args()...)
		if !call.IsMemberFunction() {
			break
		}
		before := size
		add(call.Target())
		if own, ok := macros[call.FunctionName()]; ok && len(call.Args()) == 2 {
			added := size - before + own
			size = min(size+added, saturated)
			c.added = min(c.added+added, saturated)
		}
	case ast.SelectKind:
		add(e.AsSelect().Operand())
	case ast.ListKind:
		add(e.AsList().Elements()...)
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			add(entry.AsMapEntry().Key(), entry.AsMapEntry().Value())
		}
	case ast.StructKind:
		for _, f := range e.AsStruct().Fields() {
			add(f.AsStructField().Value())
		}
	}
	return size
}
