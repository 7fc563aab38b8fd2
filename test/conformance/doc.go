// Package conformance runs the conformance tests of Kubernetes that need no pods on Kapok.
//
// testdata/specs.txt lists all conformance tests: those that pass, those that fail with the reason,
// and those that are skipped because they need what Kapok does not have. This is a separate module,
// because it depends on all of Kubernetes, which Kapok's module must not.
package conformance
