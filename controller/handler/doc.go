// Package handler maps the events of objects to requests for a reconciler.
//
// A source of events (package controller has several) calls an [EventHandler] for each event. The
// handler adds a [Request] to the queue of a controller for each object to reconcile:
// [EnqueueRequestForObject] for the object itself, [EnqueueRequestForOwner] for its owners,
// [EnqueueRequestsFromMapFunc] the requests that a function returns, and [Funcs] calls functions.
//
// # Priorities
//
// Events that are not new have a low priority. While a handler is called for an object of the
// initial list, or for an unchanged one of a resync, the requests that it adds have priority
// [LowPriority], unless it sets another with AddWithOpts. This applies to every handler.
//
// # Metadata
//
// A handler whose method MetadataOnly() bool returns true needs only a metav1.PartialObjectMetadata
// of an object. If this is also true of the predicates of a source, objects are not decoded for it.
//
// # Goroutines
//
// The handlers of this package have no state, start no goroutine, and are safe for concurrent use.
package handler
