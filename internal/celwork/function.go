package celwork

import (
	"sync"

	"github.com/google/cel-go/common/decls"
	"github.com/google/cel-go/common/types"
	"k8s.io/apiserver/pkg/cel/environment"
)

// function has what calls of a function add, by their form: f(a) and a.f().
type function struct{ global, member overloads }

// overloads are those of one form.
type overloads struct {
	overloads int
	// bindings is the greatest number of type parameters.
	bindings int
	// free functions return types that no argument determines, such as optional.none().
	free bool
	// parameters is how often a result contains the types of arguments, growth what it adds to
	// them, and size the size of other results.
	parameters, growth, size int
}

// result returns the bound of the result from that of all arguments.
func (o overloads) result(args shape) shape {
	if o.parameters == 0 && !o.free {
		return shape{size: max(1, o.size)}
	}
	return shape{max(1, o.size, plus(times(args.size, o.parameters), o.growth)), args.free}
}

// functionTable has the functions of all expressions in Kubernetes. It is shared, as it is never
// written once it is built.
var functionTable = sync.OnceValue(func() map[string]function {
	table := map[string]function{}
	env, err := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).Env(environment.StoredExpressions)
	if err != nil {
		return table // no expression compiles without an environment
	}
	for name, f := range env.Functions() {
		var both function
		for _, o := range f.OverloadDecls() {
			if o.IsMemberFunction() {
				both.member.add(o)
			} else {
				both.global.add(o)
			}
		}
		table[name] = both
	}
	return table
})

func (o *overloads) add(d *decls.OverloadDecl) {
	o.overloads++
	o.bindings = max(o.bindings, len(d.TypeParams()))
	size, in := parametersIn(d.ResultType())
	if in == 0 {
		o.size = max(o.size, size)
		return
	}
	deepest, used := 0, false
	for _, arg := range d.ArgTypes() {
		if around, in := parametersIn(arg); in > 0 && (!used || around < deepest) {
			deepest, used = around, true
		}
	}
	o.free = o.free || !used
	o.parameters = max(o.parameters, in)
	o.growth = max(o.growth, size-deepest)
	o.size = max(o.size, size+in)
}

// parametersIn returns the number of nodes of a type that are no type parameters, and of those that
// are.
func parametersIn(t *types.Type) (others, parameters int) {
	if t.Kind() == types.TypeParamKind {
		return 0, 1
	}
	others = 1
	for _, p := range t.Parameters() {
		o, n := parametersIn(p)
		others, parameters = others+o, parameters+n
	}
	return others, parameters
}
