// Package jsonpatch applies JSON patches (RFC 6902) to documents, with the results that Kubernetes
// returns. Kubernetes uses github.com/evanphx/json-patch, so that library is the reference for this
// package: results and error messages are the same, also where the library deviates from the RFC:
//
//   - A negative index counts from the end of the list.
//   - replace adds a member that the object does not have.
//   - test compares numbers and strings by their text: 1 is not 1.0.
//   - A null that an operation has set is not equal to a null member of an object in the value of a
//     test.
//   - The first reference token of a path counts even if the path does not start with a slash:
//     everything in front of the first slash is ignored.
//   - Values that no operation changes keep their text, repeated keys included.
//
// The library panics on some patches, such as a test of a list that holds null. For these, this
// package follows the RFC.
//
// Time and memory are linear in the length of the document, of the patch, and of what the patch
// copies ([MaxCopy]); the library copies the whole list for each item that is added.
package jsonpatch
