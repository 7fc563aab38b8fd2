// Package fields implements field management: metadata.managedFields, which records the owners of
// an object's fields, and server-side apply, which is based on it (KEP-555).
//
//	m, err := fields.New(fields.Options{Kind: gvk, Type: types, Convert: convert, ...})
//	...
//	obj, err = m.Update(live, obj, "kubectl-edit")         // after a create, an update or a patch
//	obj, err = m.Apply(live, applied, "controller", force) // instead of a patch
//
// # Promises
//
// Objects, owners, times and errors are those of k8s.io/apimachinery/pkg/util/managedfields, except
// in the cases below; differential tests compare the two. Where the library iterates over a Go map
// in random order, this package sorts conflicts and errors. It differs on purpose in these cases:
//
//   - Keys of list items that are integers beyond 2^53 are written as floats at once, as they would
//     be after the first read from the store.
//   - The number of errors is bounded: the first hundred type errors, and conflicts up to a million
//     path elements.
//   - The message about a stored fieldsV1 that cannot be decoded has other words.
//   - Default fills an empty map that was applied without changing the applied object; in the
//     library both can be the same map, so that defaults count as applied.
//   - If the root of an object in another version is owned as a whole, fields can be removed from
//     it; the library fails.
//
// # Model
//
// A Type is the compiled form of a schema. Objects are JSON trees. So are sets of fields: a set is
// a trie in the form of FieldsV1, as in the object's tree (see fields). So sets need not be decoded
// before a write, nor encoded after it: one pass checks that each is well-formed and fits the
// schema, and the few paths in which two objects differ are looked up in it. Unchanged sets are
// shared with their object; sets are never changed in place.
//
// All work is proportional to the size of the objects, and the depth of recursion is that of the
// objects. Decoding limits their depth, not this package.
//
// # Goroutines and locks
//
// Types and Managers are immutable and safe for concurrent use. The package starts no goroutine and
// has no locks.
package fields
