// Package client reads and writes the objects of any Kubernetes API server. Programs written for the client of controller-runtime move
// by changing imports.
//
// # Objects
//
// The same verbs take three forms of an object, by which it is decided what is sent, and what is cached:
//
//   - a Go type of the Scheme, like *batchv1.Job. Its kind is the one under which it is registered. TypeMeta need not be set, and is
//     left as it is.
//   - *unstructured.Unstructured, which says which kind it is, and needs no Scheme.
//   - *metav1.PartialObjectMetadata, which says which kind it is, and has no more than metadata: good for kinds of which there is much.
//     It can be read, patched, applied and deleted, but neither created nor updated.
//
// What a server answers is decoded into the object that was given: fields that are absent in the answer are cleared. While a call is under
// way, its object belongs to the client.
//
// What a server refuses is an error of k8s.io/apimachinery/pkg/api/errors. What cannot be meant is another error, and nothing is sent: no
// name, no namespace or one too many, a label that is none. A selector that selects nothing, like labels.Nothing, selects nothing.
//
// # Handles
//
// For a Client, For, Dynamic and MetadataFor make a Handle of one kind, which knows its Go type, pages through lists, and watches:
//
//	jobs := client.For[*batchv1.Job](c)
//	for job, err := range jobs.In("default").All(ctx) { ... }
//
// # Caches
//
// A client may read from a cache (see CacheOptions): the one that a Manager gives does. It writes to the server, and its reads wait until
// the cache has seen what it wrote: see Waiter. That takes a moment. If the server is away, such a read blocks for ten seconds (see
// CacheOptions.WaitTimeout), and then fails with ErrStale; reads with the option Stale never wait.
//
// # Kinds
//
// Which resource a kind is, and whether it has namespaces, is asked of the server when a kind is first used (see NewRESTMapper), and
// not again: a definition that comes back with another plural or another scope needs a new client.
package client
