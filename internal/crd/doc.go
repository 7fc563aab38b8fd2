// Package crd serves the resources that CustomResourceDefinitions define.
//
// It has three parts, each of which builds on the one before:
//
//   - the kind CustomResourceDefinition itself, in versions v1 and v1beta1, stored as v1
//     ([Definition]);
//   - the definition of a custom resource, made from the stored form of its
//     CustomResourceDefinition. Schemas are compiled on first use, so that an unused kind costs
//     little more than its bytes;
//   - the [Controller], which follows the history of CustomResourceDefinitions, accepts or refuses
//     their names, sets their conditions, keeps the registry up to date, and deletes the objects of
//     definitions that are being deleted. It owns the client of conversion webhooks (package
//     conversion).
//
// Conditions, reasons, messages, field paths and columns are those of
// k8s.io/apiextensions-apiserver. Two things differ on purpose. Accepted names and establishment
// are written in one update, so that clients wait for one event only; and a name of a built-in kind
// of the same group is refused.
//
// Of several servers on one journal, all serve the accepted definitions, and the leader accepts
// them ([Peers]). A definition is then established in two steps: the leader accepts its names, and
// establishes it once every server has reported that it serves it.
//
// # Goroutines and locks
//
// A Controller owns one goroutine that reconciles, and one for each CustomResourceDefinition whose
// objects are being deleted. Close ends them and waits. The goroutine that reconciles owns the
// controller's state, except for the revision that [Controller.Reach] waits for, which has a mutex;
// definitions are immutable, except that they compile schemas once.
package crd
