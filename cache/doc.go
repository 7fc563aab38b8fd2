// Package cache keeps copies of the objects of an API server in memory, for programs that read them
// much more often than they change.
//
//	c, err := cache.New(config, cache.Options{})
//	...
//	go c.Start(ctx)
//	c.WaitForCacheSync(ctx)
//	err = c.Get(ctx, client.ObjectKey{Namespace: "default", Name: "web-0"}, &pod)
//	err = c.List(ctx, &pods, client.InNamespace("default"), client.MatchingLabels{"app": "web"})
//
// Names, options and semantics are those of controller-runtime's package cache, with the
// differences described here.
//
// # Data flow
//
//	server -> reflector -> delta queue -> store -> Get, List
//	                                        |
//	                                        +----> a queue for each handler -> EventHandler
//
// A reflector lists the objects of a kind, as a stream if the server supports it (KEP-3157) and in
// pages otherwise, and watches from there. It does not decode objects: it splits the response, JSON
// or protobuf, and reads only names, uid and resourceVersion from the bytes. A broken connection is
// resumed at the last resourceVersion. Only if that has expired (410 Gone), the reflector lists
// again; objects that have disappeared are then reported as deleted with unknown = true. Between
// attempts a reflector waits 0.8 to 60 seconds, with exponential backoff and jitter, or for the
// server's Retry-After. If the server does not have the kind yet, it logs that and retries in the
// same way.
//
// The delta queue connects the reflectors with the goroutine that changes the store. The store is
// ordered by namespace and name, and so are lists. Its snapshots are copy-on-write: a List returns
// the state of one moment, and does not block writers while it decodes.
//
// # Guarantees
//
//   - The reader owns what it reads, and a handler owns what it receives: neither shares memory
//     with the cache.
//   - A handler receives the events of each object in order: addition, updates from the state
//     reported before, deletion. No event is skipped unless the server has dropped it from its
//     history. One goroutine calls the handler. A slow handler delays no other one; its pending
//     events wait in memory, encoded.
//   - The store never goes back in time, unless the server does.
//
// # Reading one's own writes
//
// A cache is behind its server, by milliseconds or more. It implements client.Waiter: a client with
// the cache as its Reader waits before each read until the store has the client's own writes. An
// [Informer] can wait, too: WaitForObject takes an object as a write returned it, WaitForRevision a
// resourceVersion, WaitForDeletion a uid. The cache learns its progress from events and bookmarks.
// A restricted informer receives no event for an object outside of its restriction. Callers that
// pass the object itself, such as the client and WaitForObject, do not wait for one. Only with a
// field selector on other fields than name and namespace may a wait last until the next event or
// bookmark, which servers send about once a minute.
//
// # The state of a server in the same process
//
// With Options.State, a follower takes the place of the reflector and the queue: it reads the
// changes of a kind from the state of a server in the same process.
//
//	state -> follower -> store -> Get, List
//
// A read first applies what has been committed until then, and so sees every write, of all clients
// and kinds. Entries share their bytes with the server, which keeps them in JSON.
//
// # Memory
//
// With [Compact], the default, an object is stored as it was received, in protobuf if the Go type
// and the server support it and in JSON otherwise, and compressed with a dictionary made of objects
// of its kind. A read decompresses and decodes; a read that shares objects with the cache
// (client.UnsafeDisableDeepCopy) finds the 4,096 of a kind that were decoded last. With [Decoded]
// it is stored as a Go object, and a read copies. 100,000 pods of 2.9 KB of JSON, on two cores of
// an EPYC (BenchmarkMemory, BenchmarkGet):
//
//	                          bytes a pod   a read
//	Compact, protobuf                 620     7 us
//	Compact, JSON                     610    32 us   as of custom kinds
//	Decoded                         6,350     8 us
//	client-go, with DeepCopy        6,350     7 us   as in controller-runtime
//
// The first list of an informer takes 4 us a pod in protobuf and 15 us in JSON
// (BenchmarkInitialSync; client-go takes 28 and 149), because nothing is decoded. An index requires
// decoding: 18 us in protobuf.
//
// Compression depends on similarity: the pods of one Deployment differ little. Objects with random
// content take their size in protobuf.
//
// # Goroutines and locks
//
// Start owns all goroutines: for each informer one that changes the store, one for each reflector,
// and one for each handler. They have ended when it returns. An informer has two locks: changing,
// held while the store or its indices change, and mu, held for the moment of the change. Handlers
// and queues have one lock each, which is not held during calls; that of a follower is held while
// it applies changes. The lock order is: queue or follower, changing, mu, handler. All time is read
// through package time, so that the cache works in a bubble of testing/synctest.
package cache
