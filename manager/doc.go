// Package manager runs controllers and what they need: a cache, clients, leader election, events,
// health checks, metrics and webhooks.
//
//	func main() {
//		mgr, err := manager.New(manager.GetConfigOrDie(), manager.Options{LeaderElection: true, LeaderElectionID: "foo.example.com"})
//		...
//		err = mgr.Start(manager.SetupSignalHandler())
//	}
//
// # Order of start and stop
//
// Start runs these groups, each after the one before has started:
//
//  1. the servers of metrics, health checks and profiles;
//  2. webhooks, because lists may need conversions. Start waits until they are reachable, for 10 s
//     at most;
//  3. the cache. Start waits until it has synced;
//  4. Runnables that need no leader election, and the warmups of those that do;
//  5. leader election, and after it is won, or without it at once, all other Runnables, which
//     includes controllers by default.
//
// When its context ends or a Runnable fails, Start stops the groups in reverse order and waits for
// each, for GracefulShutdownTimeout in total. It releases the Lease only after everything has
// stopped, so that two processes never work at the same time. Recorded events are written before
// Start returns.
//
// Start returns [ErrLeaderElectionLost] if the Lease could not be renewed within RenewDeadline or
// another process holds it. It then waits for Runnables and events only until another process can
// have acquired the Lease, or for one second if another process holds it already. A leader notices
// an edited or deleted Lease when it next renews it; until then two processes may lead. The process
// should exit after this error.
//
// # Reading its own writes
//
// The client of GetClient reads from the cache. A read first waits until the cache has seen the
// client's own writes: see client.Waiter. A Reconciler that has just created an object finds it in
// its next call.
//
// # Goroutines and locks
//
// New starts no goroutine. Start owns all of them, and returns after they have ended, except those
// of Runnables that exceed the timeout. There is no global state: two managers in one process are
// independent, and each has its own registry of metrics. All time is read through package time, so
// that a manager with a server in the same process works in a bubble of testing/synctest.
package manager
