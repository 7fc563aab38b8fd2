package celwork

import (
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/containers"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
)

// declaredSize is the size of the type of a declared variable or of a field: a map of maps.
const declaredSize = 5

// A count is what an expression and those below it add to the work of the compiler, after their
// macros are expanded.
type count struct {
	nodes int
	// bindings are type variables that the checker binds, and copies the number of times that it
	// copies all bindings.
	bindings, copies int
	// free are type variables of empty lists and maps, whose types are those that they are compared
	// with, and uses the uses of variables that can have such types.
	free, uses int
	// wide are maps with keys that are not literals, which can double the size of a type.
	wide int
	// types is the work to walk the types without free variables; open are the squares of the sizes
	// of the others.
	types, open int
}

func (c *count) add(d count) {
	c.nodes = plus(c.nodes, d.nodes)
	c.bindings, c.copies = plus(c.bindings, d.bindings), plus(c.copies, d.copies)
	c.free, c.uses, c.wide = plus(c.free, d.free), plus(c.uses, d.uses), plus(c.wide, d.wide)
	c.types, c.open = plus(c.types, d.types), plus(c.open, d.open)
}

// work returns the units. A free variable that is used once is bound to a type that is counted
// elsewhere. If all are used again, a type can contain the types of all of them, one below the
// other, and twice at each wide map.
func (c count) work() int {
	again := min(c.free, c.uses)
	grown := times(plus(1, again), 1<<min(again, c.wide, 30))
	types := plus(c.types, times(c.open, times(grown, grown)))
	return plus(times(c.nodes, nodeWork), times(c.bindings, c.copies), times(types, typeWork))
}

// A shape bounds the type of an expression: the number of its nodes, and whether it can contain
// free variables.
type shape struct {
	size int
	free bool
}

var simple = shape{size: 1}

// join returns the bound of either type.
func (s shape) join(t shape) shape { return shape{max(s.size, t.size), s.free || t.free} }

// unify returns the bound of types that must be equal: those without free variables determine the
// others.
func unify(list ...shape) shape {
	result := shape{free: len(list) > 0}
	for _, s := range list {
		result = shape{max(result.size, s.size), result.free && s.free}
	}
	return result
}

// with returns the bound of a type that contains s and adds n nodes.
func (s shape) with(n int) shape { return shape{plus(s.size, n), s.free} }

// walk estimates one expression.
type walk struct {
	functions map[string]function
	declared  int
	patterns  int // the work to compile regular expressions
}

// scope has the variables of the macros around an expression.
type scope struct {
	name  string
	shape shape
	above *scope
}

func (s *scope) find(name string) (shape, bool) {
	for ; s != nil; s = s.above {
		if s.name == name {
			return s.shape, true
		}
	}
	return shape{}, false
}

// expr returns what e adds, and the bound of its type.
func (w *walk) expr(e ast.Expr, s *scope) (c count, result shape) {
	result = simple
	tries := 1 // the number of times that the checker walks the type
	add := func(e ast.Expr) shape {
		below, shape := w.expr(e, s)
		c.add(below)
		return shape
	}
	switch e.Kind() {
	case ast.IdentKind:
		if bound, ok := s.find(e.AsIdent()); ok {
			result = bound
			if bound.free {
				c.uses = 1
			}
		} else {
			result = shape{size: w.declared}
		}
	case ast.SelectKind:
		result = add(e.AsSelect().Operand())
		result.size = max(result.size, declaredSize)
	case ast.ListKind:
		if e.AsList().Size() == 0 {
			c.bindings, c.free, result = 1, 1, shape{2, true}
			break
		}
		var elements []shape
		for _, element := range e.AsList().Elements() {
			elements = append(elements, add(element))
			c.copies++
		}
		result = unify(elements...).with(1)
	case ast.MapKind:
		result = w.mapLiteral(e.AsMap(), &c, add)
	case ast.StructKind:
		result.size = declaredSize
		for _, f := range e.AsStruct().Fields() {
			add(f.AsStructField().Value())
			c.copies++
		}
	case ast.CallKind:
		call := e.AsCall()
		if m, ok := macroOf(call.FunctionName(), len(call.Args())); ok && call.IsMemberFunction() {
			c, result = w.macro(call, m, s)
			tries = 10
		} else {
			c, result, tries = w.call(call, s)
		}
	}
	c.nodes = plus(c.nodes, 1)
	c.walked(result, tries)
	return c, result
}

// walked adds the work to walk a type.
func (c *count) walked(s shape, tries int) {
	square := times(tries, times(s.size, s.size))
	if s.free {
		c.open = plus(c.open, square)
	} else {
		c.types = plus(c.types, square)
	}
}

func (w *walk) mapLiteral(m ast.MapExpr, c *count, add func(ast.Expr) shape) shape {
	if m.Size() == 0 {
		c.bindings, c.free = 2, 2
		return shape{3, true}
	}
	var keys, values []shape
	wide := 0
	for _, entry := range m.Entries() {
		e := entry.AsMapEntry()
		keys, values = append(keys, add(e.Key())), append(values, add(e.Value()))
		if e.Key().Kind() != ast.LiteralKind {
			wide = 1
		}
		c.copies += 2
	}
	c.wide = plus(c.wide, wide)
	key, value := unify(keys...), unify(values...)
	return shape{plus(1, key.size, value.size), key.free || value.free}
}

// call returns what a call adds, the bound of its type, and how many overloads the checker tries.
func (w *walk) call(call ast.CallExpr, s *scope) (c count, result shape, tries int) {
	args := make([]shape, 0, 4)
	below := func(e ast.Expr) {
		added, bound := w.expr(e, s)
		c.add(added)
		args = append(args, bound)
	}
	name := call.FunctionName()
	f := w.functions[name].global
	if call.IsMemberFunction() {
		f = w.functions[name].member
		below(call.Target())
		if prefix, ok := containers.ToQualifiedName(call.Target()); ok {
			if qualified, ok := w.functions[prefix+"."+name]; ok {
				f, args = qualified.global, args[:0]
			}
		}
		w.regular(name, call.Args())
	}
	for _, e := range call.Args() {
		below(e)
	}
	c.bindings = plus(c.bindings, f.bindings)
	c.copies = plus(c.copies, f.overloads)
	if f.free {
		c.free = plus(c.free, f.bindings)
	}
	switch {
	case name == operators.OptSelect && len(args) > 0:
		return c, args[0].with(1), 1
	case name == operators.Conditional && len(args) == 3:
		result = unify(args[1:]...)
	case name == operators.Add || name == "or" || name == "orValue":
		result = unify(args...)
	default:
		result = shape{free: f.free}
		for _, a := range args {
			result = result.join(a)
		}
	}
	return c, f.result(result), 1 + f.overloads
}

// regular adds the work to compile the regular expressions among the arguments of a function.
func (w *walk) regular(name string, args []ast.Expr) {
	if name != "matches" && name != "find" && name != "findAll" {
		return
	}
	for _, e := range args {
		if e.Kind() == ast.LiteralKind {
			if text, ok := e.AsLiteral().(types.String); ok {
				w.patterns = plus(w.patterns, patternWork(string(text)))
			}
		}
	}
}
