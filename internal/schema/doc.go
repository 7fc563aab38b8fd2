// Package schema compiles the structural schemas of custom resources into programs that normalise
// and validate objects. Objects are JSON trees of map[string]any, []any, string, bool, int64,
// float64 and nil.
//
//	p, err := schema.Compile(crd.Spec.Versions[0].Schema.OpenAPIV3Schema, crd.Spec.PreserveUnknownFields)
//	...
//	err = p.Normalise(obj, &unknown) // prunes, coerces embedded metadata, sets defaults
//	errs := p.Validate(obj)          // Kubernetes' errors: paths, types, values, messages
//	errs = append(errs, p.Evaluate(obj, nil, errs, nil)...) // and those of x-kubernetes-validations
//
// # Promises
//
// Programs behave as k8s.io/apiextensions-apiserver does, including its special cases (packages
// schema/pruning, schema/defaulting, schema/objectmeta, schema/listtype, schema/cel and validation,
// and the validators of kube-openapi below them); differential tests compare the two. Where
// Kubernetes iterates over a map and returns errors in random order, this package visits properties
// by name, so that equal input gives equal output.
//
// # Model
//
// A schema becomes a tree of nodes. A node has the shape of a value (fields, items, additional
// properties), how it is normalised (pruned, kept, defaulted), and its constraints. Validation has
// two passes: the first only decides whether the object is valid, builds no paths and allocates
// nothing; an invalid object is visited again by the same code with a report, which collects errors
// and the counts of matched constraints from which Kubernetes chooses among failed alternatives.
//
// Schema rules, those in x-kubernetes-validations, are called conditions in this package. A tree
// of conditions evaluates them: it leads only to places with conditions, and compiles those of a
// place for the first value found there. Expressions read values through their nodes, without
// copying or converting them in advance. A condition that fails is ignored if its value did not
// change (ratcheting); this is determined after the evaluation, by correlating each value on the
// path with its old one.
//
// # Out of scope
//
// The root's apiVersion, kind and metadata are never pruned or validated, except where the schema
// restricts metadata.name or metadata.generateName: the server decodes and validates ObjectMeta.
// The server also validates the paths of the scale subresource and of printer columns. Errors of
// Evaluate come after all others, as in Kubernetes. The cost of expressions is bounded when the
// CustomResourceDefinition is written, not here.
//
// # Goroutines and locks
//
// A Program is immutable after Compile, except that regular expressions and conditions are compiled
// once on first use; it is safe for concurrent use. The caller owns objects: Normalise changes them
// in place, and copies defaults into them. The package starts no goroutine, and holds a lock only
// while it compiles conditions.
package schema
