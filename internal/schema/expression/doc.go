// Package expression compiles and evaluates expressions of the Common Expression Language for one
// value, self, and the value that it replaces, oldSelf.
//
//	scope, err := expression.NewScope(declared)        // what self is
//	e, err := scope.Condition("self.min <= self.max", false)
//	...
//	v, cost, err := e.Eval(ctx, &expression.Variables{Self: value})
//
// # Promises
//
// Expressions have Kubernetes' libraries and limits: their environment is that of
// k8s.io/apiserver/pkg/cel/environment for stored expressions. Error messages are the same.
//
// # Cost
//
// The environment is created when the first expression is compiled, and shared by the process.
// Extending it by the types of a scope is expensive; expressions are planned in the shared
// environment, so that a scope can be dropped after all its expressions have been compiled, and an
// [Expression] only retains its plan.
//
// # Concurrency
//
// A Scope must not be used concurrently. An Expression is immutable, and safe for concurrent use.
// The package starts no goroutine.
package expression
