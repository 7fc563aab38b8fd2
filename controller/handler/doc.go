// Package handler is the way from what happens to an object to the keys that a reconciler is to
// look at.
//
// A source of events (package controller has several) calls an [EventHandler] for each of them, and
// that puts a [Request] into the queue of a controller for each object to be reconciled:
// [EnqueueRequestForObject] the object itself, [EnqueueRequestForOwner] those that own it,
// [EnqueueRequestsFromMapFunc] what a function says, [Funcs] what functions do.
//
// # Priorities
//
// Old news has a low priority. While a handler is called for an object of the initial list, or for
// an unchanged one of a resync, the requests that it adds have priority [LowPriority], unless it
// sets another with AddWithOpts. This holds for every handler.
//
// # Metadata
//
// A handler with a method MetadataOnly() bool that is true needs no more of an object than a
// metav1.PartialObjectMetadata. If the predicates of a source are also of this sort, objects are
// not decoded for it.
//
// # Goroutines
//
// The handlers here have no state, and start no goroutine. They may be called by several.
package handler
