package celwork

import "github.com/google/cel-go/common/ast"

// A macro is expanded by the parser.
type macro struct {
	// variables is the number of its first arguments, which are names.
	variables int
	// twice is set if the expansion has the receiver twice.
	twice bool
	// bindings and copies are those of the calls in its expansion.
	bindings, copies int
	// result returns the bound of the type from those of the receiver and of the last argument.
	result func(receiver, last shape) shape
}

// macroNodes is the number of nodes that the expansion of a macro adds, at most.
const macroNodes = 12

// macroOf returns a macro of Kubernetes by its name and the number of its arguments.
func macroOf(name string, args int) (macro, bool) {
	switch {
	case name == "all" || name == "exists" || name == "exists_one" || name == "existsOne":
		return macro{variables: args - 1, bindings: 1, copies: 8, result: boolean}, args == 2 || args == 3
	case name == "map":
		return macro{variables: 1, bindings: 4, copies: 20, result: wrapped}, args == 2 || args == 3
	case name == "filter" || name == "sortBy":
		return macro{variables: 1, bindings: 4, copies: 20, result: unchanged}, args == 2
	case name == "optMap":
		return macro{variables: 1, bindings: 4, copies: 8, twice: true, result: wrapped}, args == 2
	case name == "optFlatMap":
		return macro{variables: 1, bindings: 4, copies: 8, twice: true, result: replaced}, args == 2
	case name == "transformList":
		return macro{variables: 2, bindings: 4, copies: 20, result: wrapped}, args == 3 || args == 4
	case name == "transformMap":
		return macro{variables: 2, bindings: 5, copies: 8, result: keyed}, args == 3 || args == 4
	case name == "transformMapEntry":
		return macro{variables: 2, bindings: 5, copies: 8, result: replaced}, args == 3 || args == 4
	}
	return macro{}, false
}

func boolean(_, _ shape) shape          { return simple }
func unchanged(receiver, _ shape) shape { return receiver }
func replaced(_, last shape) shape      { return last }
func wrapped(_, last shape) shape       { return last.with(1) }
func keyed(receiver, last shape) shape {
	return shape{plus(1, receiver.size, last.size), receiver.free || last.free}
}

// macro returns what an expanded macro adds, and the bound of its type.
func (w *walk) macro(call ast.CallExpr, m macro, s *scope) (c count, result shape) {
	receiver, bound := w.expr(call.Target(), s)
	c = count{nodes: macroNodes, bindings: m.bindings, copies: m.copies}
	c.add(receiver)
	if m.twice {
		c.add(receiver)
	}
	if call.FunctionName() == "transformMap" {
		c.wide = plus(c.wide, 1) // its keys are those of its receiver
	}
	var last shape
	for i, e := range call.Args() {
		if i < m.variables {
			if e.Kind() == ast.IdentKind {
				s = &scope{name: e.AsIdent(), shape: bound, above: s}
			}
			continue
		}
		added, shape := w.expr(e, s)
		c.add(added)
		last = shape
	}
	return c, m.result(bound, last)
}
