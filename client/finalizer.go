package client

import "slices"

// AddFinalizer adds a finalizer to an object, and reports whether it was missing. A deleted object
// stays until it has no finalizers.
func AddFinalizer(obj Object, finalizer string) (updated bool) {
	if ContainsFinalizer(obj, finalizer) {
		return false
	}
	obj.SetFinalizers(append(slices.Clone(obj.GetFinalizers()), finalizer))
	return true
}

// RemoveFinalizer removes a finalizer from an object, and reports whether it was there.
func RemoveFinalizer(obj Object, finalizer string) (updated bool) {
	if !ContainsFinalizer(obj, finalizer) {
		return false
	}
	obj.SetFinalizers(slices.DeleteFunc(slices.Clone(obj.GetFinalizers()), func(f string) bool { return f == finalizer }))
	return true
}

// ContainsFinalizer reports whether an object has a finalizer.
func ContainsFinalizer(obj Object, finalizer string) bool {
	return slices.Contains(obj.GetFinalizers(), finalizer)
}
