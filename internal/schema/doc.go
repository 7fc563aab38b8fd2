// Package schema compiles the structural schemas of custom resources into programs that normalise and validate objects
// held as JSON trees: map[string]any, []any, string, bool, int64, float64 and nil, nothing else.
//
//	p, err := schema.Compile(crd.Spec.Versions[0].Schema.OpenAPIV3Schema, crd.Spec.PreserveUnknownFields)
//	...
//	err = p.Normalise(obj, &unknown) // prunes, coerces embedded metadata, fills in defaults
//	errs := p.Validate(obj)          // Kubernetes' errors: paths, types, values, messages
//	errs = append(errs, p.Evaluate(obj, nil, errs, nil)...) // and those of x-kubernetes-validations
//
// # What it promises
//
// Programs behave as k8s.io/apiextensions-apiserver does (its packages schema/pruning, schema/defaulting,
// schema/objectmeta, schema/listtype, schema/cel and validation, and the validators of kube-openapi below them), odd corners included:
// differential tests hold the two side by side. Where Kubernetes iterates over a map its errors come in random order; here
// properties are visited by name, so equal input gives equal output.
//
// # Its model
//
// A schema becomes a tree of nodes. A node knows the shape of a value (fields, items, additional properties), what becomes
// of it while it is normalised (pruned, kept, defaulted) and the rules it must obey. Validation runs in two gears: the
// verdict visits the object once, builds no paths and allocates nothing; only an object that fails is visited again by the
// same code with a report at hand, which collects errors and the counts of matched rules that Kubernetes uses to choose
// among failed alternatives.
//
// Rules in x-kubernetes-validations, here called conditions, are evaluated apart, by guards: a second tree that leads only to
// places with conditions. A guard compiles its conditions when the first value is there. Expressions see values through
// their nodes, as they are: nothing is copied or converted before it is asked for. Whether a value that breaks a condition
// is excused because it did not change is found out afterwards, by correlating the values on the way to it, each once.
//
// # What it leaves to others
//
// The root's apiVersion, kind and metadata are never pruned and not judged, except where the schema itself restricts
// metadata.name or metadata.generateName: decoding and checking ObjectMeta is the server's work. So are the paths of the
// scale subresource and of printer columns. Errors of Evaluate belong after all others, which is the order of Kubernetes.
// What expressions would cost at worst is judged when the CustomResourceDefinition is written.
//
// # Concurrency
//
// A Program is immutable after Compile, but for regular expressions and conditions, which compile once when they are first
// needed; any number of goroutines may use it. Objects are owned by the caller: Normalise changes them in place, defaults are copied
// into them. The package starts no goroutine and holds no lock across a call but while conditions compile.
package schema
