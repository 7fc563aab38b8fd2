// Package defaults applies the defaults of objects of the built-in kinds, in all their versions.
//
// Defaults belong to a version: extensions/v1beta1 replaces one pod at a time, apps/v1 a quarter of
// them. They are those of Kubernetes 1.37 with its default feature gates. All functions change
// their argument in place and are idempotent. The only state of the package are tables that are
// built once.
package defaults

// Value sets a field that is zero.
func Value[V comparable](at *V, value V) {
	var zero V
	if *at == zero {
		*at = value
	}
}

// Pointer sets a nil pointer to a copy of value.
func Pointer[V any](at **V, value V) {
	if *at == nil {
		*at = &value
	}
}
