// Package manage keeps metadata.managedFields: who owns which fields of an object, and server-side apply, which is built on
// it (KEP-555).
//
//	m, err := manage.New(manage.Options{Kind: gvk, Type: types, Convert: convert, ...})
//	...
//	obj, err = m.Update(live, obj, "kubectl-edit")         // after a create, an update or a patch
//	obj, err = m.Apply(live, applied, "controller", force) // instead of a patch
//
// # What it promises
//
// Objects, owners, times and errors are those of k8s.io/apimachinery/pkg/util/managedfields, odd corners included:
// differential tests hold the two side by side. Where the library goes through a Go map and comes out in any order,
// conflicts and errors come in order here. They differ on purpose where
//
//   - list items are told apart by integers beyond 2^53: these are spelt at once as they are once they have been stored, as floats;
//   - there is no end of errors: only the first hundred type errors are told, and conflicts up to a million path elements;
//   - a stored fieldsV1 cannot be read: the message is worded otherwise;
//   - Default fills an empty map that was applied: in the library it may be the applied one, which is then noted as if it
//     had been applied so;
//   - the root of another version is owned as a whole: the library can remove nothing from it, and fails.
//
// # Its model
//
// A Type is the compiled shape of a schema. Objects are JSON trees, and so are sets of fields: a set is the trie that
// FieldsV1 is, in the very form in which the tree of an object holds it (see fields). The sets of an object need therefore not
// be decoded before a write, nor encoded after it: a look at each finds out that it is well spelt and fits the schema,
// and the few paths in which two objects differ are looked up in it. Sets that stay the same are shared with the object
// that they come from; nobody changes a set in place.
//
// All work is proportional to the size of the objects, and recursion is as deep as they are; what is refused for its
// depth is refused by whoever decodes objects.
//
// # Concurrency
//
// Types and Managers are immutable and may be used by any number of goroutines. There are no goroutines and no locks.
package manage
