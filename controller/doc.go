// Package controller calls a Reconciler for every change of the objects that it watches: it is the
// loop at the heart of a Kubernetes controller.
//
//	func (r *FooReconciler) SetupWithManager(mgr ctrl.Manager) error {
//		return ctrl.NewControllerManagedBy(mgr).For(&v1.Foo{}).Owns(&appsv1.Deployment{}).Complete(r)
//	}
//
// A [Builder] lists what a controller watches: the objects of a kind (For), the objects that they
// own (Owns), and other objects, which a handler maps to requests (Watches). Each is a [Source].
// Its events pass predicates (package predicate) and reach a handler (package handler), which adds
// keys of objects to the queue of the controller (package workqueue). Workers take them from the
// queue and call the [Reconciler].
//
// # Types
//
// The names with Typed are generic over the type of objects and the type of requests. A request can
// be of any comparable type, for example a key of an object together with its cluster. The names
// without Typed are their instances for objects of any kind and for [Request].
// [TypedControllerManagedBy] has an example.
//
// # Guarantees
//
//   - No worker starts before all sources have synced: what a Reconciler reads from the cache is
//     complete.
//   - No object is reconciled by two workers at the same time. An event during a reconcile causes
//     another one after it.
//   - A reconcile that fails or panics is retried with exponential backoff. A panic does not end
//     the worker.
//   - Events of the initial list and of resyncs have a lower priority than live ones.
//   - When the context of a controller ends, the contexts of its Reconcilers end, and Start waits
//     for them. Queued requests are dropped.
//
// Names and semantics are those of controller-runtime 0.25: docs/from-controller-runtime.md lists
// the differences.
//
// # Goroutines and locks
//
// Start owns the workers and the sources, and returns when all of them have ended. A controller has
// one lock for its sources, one for its queue, and one for its tracer. None of them is held while a
// Reconciler or a handler runs. All time is read through package time: in a bubble of
// testing/synctest a test can let days pass.
package controller
