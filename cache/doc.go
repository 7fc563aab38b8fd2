// Package cache keeps the objects of an API server at hand, for programs that read them much more often than they change.
//
//	c, err := cache.New(config, cache.Options{})
//	...
//	go c.Start(ctx)
//	c.WaitForCacheSync(ctx)
//	err = c.Get(ctx, client.ObjectKey{Namespace: "default", Name: "web-0"}, &pod)
//	err = c.List(ctx, &pods, client.InNamespace("default"), client.MatchingLabels{"app": "web"})
//
// Names, options and meanings are those of controller-runtime's package cache, but for what is said below.
//
// # The way of an object
//
//	server -> reflector -> delta queue -> store -> Get, List
//	                                        |
//	                                        +----> a queue for each handler -> EventHandler
//
// A reflector lists the objects of a kind, as a stream where the server has that (KEP-3157) and in pages where not, and watches them from
// there. It does not decode them: it splits what comes, JSON or protobuf, and reads names, uid and resourceVersion out of the bytes. A
// connection that breaks is taken up at the last resourceVersion; only when the server has forgotten that (410 Gone) is there another list, and
// what has vanished meanwhile is told as a deletion with unknown = true. Between attempts a reflector waits 0.8 to 60 seconds, growing and with
// jitter, or as long as the server asks (Retry-After). A kind that does not exist, yet, is looked for in the same way, and logged.
//
// The delta queue lies between those who hear of changes and the one who makes them. The store is ordered by namespace and name, and so are
// lists. It has snapshots that cost nothing: a List is what was true at one moment, and holds up nobody while it decodes.
//
// # What it promises
//
//   - What is read, and what a handler is given, belongs to the reader. It shares no memory with the cache or with other readers.
//   - A handler hears of each object in order: it is added, it changes from the state that was told before, it is deleted, and all that
//     happened is told, unless the server has forgotten it. It is called by one goroutine. A slow handler delays nobody, and has what it has not
//     heard yet in memory, encoded.
//   - The store never goes back, unless the server does.
//
// # Reading one's own writes
//
// A cache is behind its server, by milliseconds or more. It is a client.Waiter: a client that has it as its Reader waits, before it reads, until
// the store has what the client wrote. An [Informer] can wait, too: WaitForObject takes an object as the server returned it from a write,
// WaitForRevision a resourceVersion, WaitForDeletion a uid. What has been reached is known from events and bookmarks. A restricted informer
// gets no event of an object that it does not keep; who has the object, as the client and WaitForObject, does not wait for one. It is only with a
// field selector, other than by name and namespace, that a wait may last until the next event or bookmark, which servers send once a minute or so.
//
// # Memory
//
// With [Compact], the default, an object is kept as it came, in protobuf where the Go type and the server have it, in JSON otherwise, and packed
// with a dictionary made of objects of its kind, which are much alike. A read unpacks and decodes. With [Decoded] it is kept as a Go object, and
// a read copies. 100,000 pods of 2.9 KB of JSON, on two cores of an EPYC (BenchmarkMemory, BenchmarkGet):
//
//	                          bytes a pod   a read
//	Compact, protobuf                 620     7 us
//	Compact, JSON                     610    32 us   as of custom kinds
//	Decoded                         6,350     8 us
//	client-go, with DeepCopy        6,350     7 us   as in controller-runtime
//
// The first list of an informer takes 4 us a pod in protobuf and 15 in JSON (BenchmarkInitialSync; in client-go 28 and 149), as nothing is
// decoded; with an index, for which that must be, 18 in protobuf.
//
// Pods of one Deployment differ in little. The less objects have in common, the less is gained: what is random takes what it takes in protobuf.
//
// # Goroutines and locks
//
// Start owns all goroutines: for each informer one that changes the store, one for each reflector, one for each handler. When it returns, they
// have ended. An informer has two locks: changing, for who changes the store or its indices, and mu for the moment of the change. Handlers and
// queues have a lock each, which is held while nothing else is called. The order is: queue, changing, mu, handler. All time is read through
// package time, so that everything works in a bubble of testing/synctest.
package cache
