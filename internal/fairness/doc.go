// Package fairness limits the number of requests that are served at a time, so that a client that
// sends many requests does not starve others: by Kubernetes' API Priority and Fairness (KEP-1040),
// or, without it, by two plain limits, on reads and on writes.
//
// # The steps of a request
//
//	classify  the first FlowSchema, in order of precedence, that matches user and
//	          request names a priority level                                         match.go
//	estimate  how many seats the request takes, and for how long after its end       work.go
//	enter     the request gets its seats, or waits in a queue of its level, or is
//	          rejected (429)                                                         level.go, queue.go, wait.go
//	leave     the request releases its seats, and waiting requests get them
//
// A level has a share of the server's seats. It lends seats that it does not use to other levels:
// limits are adjusted every ten seconds while there are requests (borrow.go). The exempt level
// admits all requests immediately.
//
// Within a level, the requests of a flow (a FlowSchema, together with the user or the namespace if
// the FlowSchema distinguishes flows by these) go into one of a few queues, which a hash of the
// flow selects. So a flow with many requests only fills these queues. Free seats go to the queue
// whose next request would end first if all queues were served in parallel, at equal rates (fair
// queueing, in virtual time).
//
// # Configuration
//
// FlowSchemas and PriorityLevelConfigurations are read from the state at the first request, and
// again when one of them changes (configure.go). The default objects of Kubernetes ([Defaults])
// that are mandatory apply even if they are not stored; internal/housekeeping/flowschemas creates
// them.
//
// # Goroutines, locks, time
//
// A Limiter starts no goroutines except those of timers, which run only while requests wait;
// [Limiter.Close] waits for them. Each level has a lock, which is held for some tens of
// nanoseconds. The Limiter has a lock for the configuration, which is acquired before those of
// levels. While the lock of a level is held, no lock of another level is acquired, and no other
// package is called that may block.
//
// # Differences from Kubernetes
//
// The hash that selects queues has a secret for each server, so that clients cannot choose names
// that share the queues of others. Requests of the exempt level count as one seat each. Lists take
// a seat for every 100 objects or 100 kB, whichever is more, and at most 10. Limits are adjusted
// when a request enters, leaves or waits ten seconds or more after the last adjustment, not while
// there are no requests.
package fairness
