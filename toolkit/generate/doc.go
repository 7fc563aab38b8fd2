// Package generate runs the generators of sigs.k8s.io/controller-tools over the packages of a project:
// deep copies of API types, CustomResourceDefinitions, roles, webhook configurations, apply
// configurations. It does what controller-gen does, with the same options and the same output, and
// besides:
//
//   - It writes nothing unless all generators succeed, and only the files that change.
//   - It names definitions whose types are gone.
//   - A marker that no generator knows is an error with its position and the nearest name.
//     controller-gen ignores it.
//   - With Options.Check it writes nothing, and reports the files that are not current.
//
// A Run uses one goroutine, the one of its caller, and those of the go command that it starts.
package generate
