// Package generate runs the generators of sigs.k8s.io/controller-tools (deep copies of API types,
// CustomResourceDefinitions, roles, webhook configurations, apply configurations) and of
// k8s.io/code-generator (deep copies, defaults, conversions, validation, registration, clientsets,
// listers, informers, apply configurations, OpenAPI definitions) over the packages of a module. It
// does what controller-gen and kube_codegen.sh do, with the same output, and besides:
//
//   - It loads the packages once for all generators of code-generator.
//   - It writes nothing unless all generators succeed, and only the files that change.
//   - It removes files of code generators whose types are gone, and names such definitions.
//   - A marker of kubebuilder that no generator knows is an error with its position and the nearest
//     name. controller-gen ignores it.
//   - With Options.Check it writes nothing, and reports the files that are not current.
//   - A run whose inputs and outputs have not changed since the last one does nothing.
//
// The generators set global variables, such as os.Args, so that a process must have one Run at a
// time. A Run has the goroutine of its caller, those of the go command that it starts, and some
// that format files; none of them outlives it.
package generate
