// Package expression compiles and evaluates expressions of the Common Expression Language about one value, self, and the
// value that it replaces, oldSelf.
//
//	scope, err := expression.NewScope(declared)        // what self is
//	e, err := scope.Condition("self.min <= self.max", false)
//	...
//	v, cost, err := e.Eval(expression.Variables{Self: value})
//
// # What it promises
//
// Expressions see Kubernetes' libraries and are held to Kubernetes' limits: the environment is the one that
// k8s.io/apiserver/pkg/cel/environment makes for expressions that are stored already. Errors read as they do there.
//
// # What it costs
//
// The environment is made when the first expression is compiled, and shared by the process. Extending it by the types of a
// scope is expensive; what is compiled is planned in the shared environment, so that a scope can be dropped when all its
// expressions are compiled, and an [Expression] keeps nothing but its plan.
//
// # Concurrency
//
// A Scope belongs to one goroutine. An Expression is immutable: any number of goroutines may evaluate it. The package
// starts no goroutine.
package expression
