// Package defaults fills in what the objects of the built-in kinds leave open, in all their versions.
//
// Defaults are a part of what a version means: extensions/v1beta1 rolls out one pod at a time where apps/v1 takes a
// quarter. They are those of Kubernetes 1.37 with its default feature gates. All functions change the object they are
// given, and nothing the second time. The package has no state but tables that are made once.
package defaults

// fill sets what is zero.
func fill[V comparable](at *V, value V) {
	var zero V
	if *at == zero {
		*at = value
	}
}

// set points a nil pointer at a value.
func set[V any](at **V, value V) {
	if *at == nil {
		*at = &value
	}
}
