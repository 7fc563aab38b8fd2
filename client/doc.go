// Package client reads and writes the objects of any Kubernetes API server. Programs move from the
// client of controller-runtime by changing imports.
//
// # Objects
//
// All verbs accept three forms of an object. The form selects the encoding and the cache:
//
//   - A Go type of the Scheme, such as *batchv1.Job. Its kind is the one under which it is
//     registered. TypeMeta need not be set, and is not changed.
//   - *unstructured.Unstructured, which carries its kind and needs no Scheme.
//   - *metav1.PartialObjectMetadata, which carries its kind and has metadata only. It saves memory
//     for large kinds. It can be read, patched, applied and deleted, but not created or updated.
//
// The response is decoded into the object of the call: fields that are absent in the response are
// cleared. The client owns the object during the call.
//
// An error response of the server is an error of k8s.io/apimachinery/pkg/api/errors. An invalid
// call is another error, and nothing is sent: a missing name, a missing or superfluous namespace,
// an invalid label. A selector that matches nothing, such as labels.Nothing, returns nothing.
//
// # Handles
//
// For, Dynamic and MetadataFor return a Handle of one kind on top of a Client. It knows its Go
// type, pages through lists, and watches:
//
//	jobs := client.For[*batchv1.Job](c)
//	for job, err := range jobs.In("default").All(ctx) { ... }
//
// # Caches
//
// A client can read from a cache (see CacheOptions), as the client of a Manager does. It writes to
// the server, and its reads wait until the cache has seen its own writes: see Waiter. This usually
// takes milliseconds. If the server is unreachable, such a read blocks for ten seconds (see
// CacheOptions.WaitTimeout), and then returns ErrStale. Reads with the option Stale never wait.
//
// # Kinds
//
// The client asks the server once for the resource and the scope of a kind, when the kind is first
// used (see NewRESTMapper). A definition that is replaced by one with another plural or another
// scope needs a new client.
package client
