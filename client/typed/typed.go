// Package typed converts between JSON, trees of it, and the Go structs of the Kubernetes API. Trees
// are map[string]any, []any, string, bool, int64, float64 and nil.
//
//	var pod corev1.Pod
//	err := typed.FromJSON(data, &pod)
//	tree, err := typed.Tree(data)
//	err = typed.FromTree(tree, &pod)
//	tree, err = typed.ToTree(&pod)
//
// # Promises
//
// Results and errors are those of package sigs.k8s.io/json for JSON, and those of
// runtime.DefaultUnstructuredConverter of k8s.io/apimachinery for trees; differential tests compare
// them for all types of client-go's scheme. Only the capacity of slices may differ. As with the
// converter, a tree and an object share strings, and values of fields of type any that FromTree has
// set, but no other memory. SharedTree is the only function whose result shares memory with JSON.
//
// # Model
//
// A Go type is compiled once, by reflection, into a codec: a function that encodes a value at an
// address, one that decodes a tree into zeroed memory at an address, and one that parses JSON into
// it. Structs have a plan, which lists their fields with offsets, names and codecs. Codecs handle
// the values that valid objects have. At anything else (a value of another type, a number that does
// not fit, a repeated key, a surrogate, a marshaler that fails, a type that no codec supports) the
// conversion is abandoned and the library repeats it from the start, so that errors and special
// cases need no code here.
//
// Codecs access fields through unsafe.Pointer. Package reflect needs five times as long to read the
// fields of a container.
//
// # Concurrency
//
// All functions may be called concurrently. The package has no locks and starts no goroutines. Its
// only state is a cache of compiled types, which is derived from the types alone and grows with the
// number of types in use.
package typed

import (
	"encoding/binary"
	"reflect"
	"unsafe"

	"k8s.io/apimachinery/pkg/runtime"
)

// FromTree decodes a tree into the struct that into points to, as FromUnstructured does: fields
// that the tree does not have become zero, and keys that the struct does not have are ignored. If
// it returns an error, the struct may have been modified.
func FromTree(tree map[string]any, into any) error {
	if decode(tree, into, false) {
		return nil
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(tree, into)
}

// FromTreeStrict is FromTree, except that it returns a strict decoding error if the tree has keys
// that the struct does not have, as FromUnstructuredWithValidation does. The struct is complete
// then; see runtime.AsStrictDecodingError.
func FromTreeStrict(tree map[string]any, into any) error {
	if decode(tree, into, true) {
		return nil
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(tree, into, true)
}

// ToTree encodes the struct that obj points to as a new tree, as ToUnstructured does.
func ToTree(obj any) (map[string]any, error) {
	if tree, ok := encode(obj); ok {
		return tree, nil
	}
	return runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
}

// decode reports whether codecs have decoded the tree. If not, into is as it was.
func decode(tree map[string]any, into any, strict bool) bool {
	v := reflect.ValueOf(into)
	if v.Kind() != reflect.Pointer || v.IsNil() {
		return false
	}
	t := v.Type().Elem()
	plan, p := codecOf(t).reads, v.UnsafePointer()
	if plan == nil || !zeroed(p, t.Size()) { // codecs need zeroed memory
		return false
	}
	if plan.read(p, tree, strict) {
		return true
	}
	v.Elem().SetZero()
	return false
}

// encode returns the tree of an object if codecs can encode it.
func encode(obj any) (map[string]any, bool) {
	v := reflect.ValueOf(obj)
	if v.Kind() != reflect.Pointer || v.IsNil() {
		return nil, false
	}
	plan := codecOf(v.Type().Elem()).writes
	if plan == nil {
		return nil, false
	}
	return plan.tree(v.UnsafePointer(), new(encoder))
}

// zeroed reports whether memory has only zero bytes.
func zeroed(p unsafe.Pointer, size uintptr) bool {
	memory := unsafe.Slice((*byte)(p), size)
	for ; len(memory) >= 8; memory = memory[8:] {
		if binary.NativeEndian.Uint64(memory) != 0 {
			return false
		}
	}
	for _, b := range memory {
		if b != 0 {
			return false
		}
	}
	return true
}
