// Package crd turns CustomResourceDefinitions into resources that are served.
//
// It has three parts, which lean on each other in this order:
//
//   - the kind CustomResourceDefinition itself, in versions v1 and v1beta1, stored as v1 ([Definition]);
//   - the definition of a custom resource, made from the stored form of its CustomResourceDefinition. What a request
//     needs of the schema is compiled on first use, so that a kind that nobody uses costs little more than its bytes;
//   - the [Controller], which follows the history of CustomResourceDefinitions, accepts or refuses their names, sets their
//     conditions, keeps the registry up to date, and deletes the objects of those that are to go. It owns what calls
//     the webhooks that convert objects (package conversion).
//
// Kinds behave as k8s.io/apiextensions-apiserver serves them: conditions, reasons, messages, field paths, columns.
// Two things differ on purpose. Names and establishment are written in one update, so that no client ever waits; and a
// name that belongs to a built-in kind of the same group is refused.
//
// Of several servers on one journal all serve what has been accepted, and one decides ([Peers]). There a definition is
// established in two steps: its names are accepted, and when every server has told that it serves it, so is the whole.
//
// # Goroutines and locks
//
// A Controller owns one goroutine that reconciles, and one for each CustomResourceDefinition that waits for its objects
// to go. Close ends them and waits. State is shared with nobody; definitions are immutable but for what they compile
// once.
package crd
