// Package fairness bounds how many requests are served at a time, so that nobody who sends many keeps others from being
// served: Kubernetes' API Priority and Fairness (KEP-1040), or without it two plain bounds, on reads and on writes.
//
// # The way of a request
//
//	classify  the first FlowSchema, in the order of precedence, that matches
//	          user and request names a priority level                                match.go
//	estimate  how many seats the request takes, and for how long after its end       work.go
//	enter     it gets its seats at once, or waits in a queue of its level,
//	          or is refused (429)                                                     level.go, queue.go, wait.go
//	leave     it gives its seats back, and those who waited for them go on
//
// A level has as many seats as its share of the server's bound says. What a level does not use it lends to others:
// limits are set anew every ten seconds while there is work (borrow.go). The exempt level takes everybody at once.
//
// Within a level the requests of a flow (a FlowSchema, and the user or the namespace if it tells flows apart by these)
// go into one of a few queues that are picked by a hash of the flow, so that a flow with many requests fills only these.
// Seats go to the queue whose next request would be the first to end if all queues were served at once, each as fast as
// the others (fair queueing, in virtual time).
//
// # Configuration
//
// FlowSchemas and PriorityLevelConfigurations are read from the store when the first request comes, and again whenever
// one of them changes (configure.go). Those that Kubernetes has from its start are made, and kept as they must be, by
// [Ensure] and a Limiter (atstart.go, maintain.go).
//
// # Goroutines, locks, time
//
// A Limiter that follows a store owns one goroutine, which sleeps until a configuration object changes; [Limiter.Close] ends
// it. Timers run only while requests wait, or an object has to be put right. Each level has a lock, which is held for
// some tens of nanoseconds; the Limiter has one for the configuration, which comes before those of levels. No level's is held while
// another one's is taken, or anything outside of this package is called.
//
// # Differences from Kubernetes
//
// Which queue a flow goes to is decided by a hash with a secret of its own for each server, so that nobody can pick names
// that fall into the queues of others. Requests of the exempt level count one seat each. Of lists the number of objects
// is known, and not their size: a seat for every 100, and 10 at most, as before 1.34. Limits are adjusted when the first
// request comes or goes after ten seconds, not while there is none.
package fairness
