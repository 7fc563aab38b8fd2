// Package controller has Reconcilers called for what happens to objects: it is the loop at the heart of a Kubernetes controller.
//
//	func (r *FooReconciler) SetupWithManager(mgr ctrl.Manager) error {
//		return ctrl.NewControllerManagedBy(mgr).For(&v1.Foo{}).Owns(&appsv1.Deployment{}).Complete(r)
//	}
//
// A [Builder] names what a controller hears of: the objects of a kind themselves (For), those that they own (Owns), and others, of
// which a handler says what they have to do with them (Watches). Each is a [Source], whose events go through predicates (package
// predicate) to a handler (package handler), which puts the names of objects into the queue of the controller (package workqueue).
// Workers take them from there, and call the [Reconciler].
//
// # What it promises
//
//   - No worker begins before all sources have synced: what a Reconciler reads from the cache is complete.
//   - No object is reconciled by two workers at a time. What happens meanwhile has it reconciled again.
//   - What fails is tried again, later each time; what panics also, and the worker goes on.
//   - Events of the initial list, and of resyncs, come after live ones.
//   - When the context of a controller ends, that of its Reconcilers does, and Start waits for them. What waits in the queue is not begun.
//
// The names, and what they mean, are those of controller-runtime 0.25: see docs/from-controller-runtime.md for what differs.
//
// # Goroutines and locks
//
// Start owns the workers and the sources, and returns when all have ended. A controller has one lock, for its sources; its queue
// has another, and its tracer a third. None is held while a Reconciler or a handler is called. All time is that of package time, so
// that a test can have days pass in a bubble of testing/synctest.
package controller
