// Package manager runs controllers and what they need: a cache, clients, a leader election, events, health, metrics, webhooks.
//
//	func main() {
//		mgr, err := manager.New(manager.GetConfigOrDie(), manager.Options{LeaderElection: true, LeaderElectionID: "foo.example.com"})
//		...
//		err = mgr.Start(manager.SetupSignalHandler())
//	}
//
// # The order of things
//
// Start starts, each when the one before has started: the servers of metrics, health and profiles; webhooks, as lists may need
// conversions, and waits until they are reachable, for 10 s at most; the cache, and waits until it has synced; Runnables that need no
// leader election, and the warmups of others; the election, and when it is won, or if there is none, all other Runnables, which are
// the controllers as a rule.
//
// When its context ends, or a Runnable fails, Start stops them in reverse order, and waits for each, for the
// GracefulShutdownTimeout in all. Only then, and only if all have ended, it releases the Lease, so that no two processes work at a
// time. Events that were recorded are written, before Start returns.
//
// If the Lease is lost, which means that it could not be renewed for the RenewDeadline, or that somebody else holds it, Start ends with
// [ErrLeaderElectionLost]; it waits for Runnables and for events no longer than nobody else can have taken the Lease, and for a second
// if somebody has. A leader sees that at its next try to renew the Lease, so until then two may lead, if somebody deletes or edits it.
// The process should end then.
//
// # Reading its own writes
//
// GetClient reads from the cache, and waits, before it does, until the cache has seen what the client has written: see
// client.Waiter. So a Reconciler that has just created an object finds it when it is called again.
//
// # Goroutines and locks
//
// New starts no goroutine. Start owns all of them, and returns when they have ended, except for those of Runnables that do not end
// in time. There is nothing global: two managers in a process know nothing of each other, and each has its own registry of metrics.
// Time is that of package time: with the server in the same process, everything works in a bubble of testing/synctest.
package manager
