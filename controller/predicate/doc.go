// Package predicate filters the events of a controller. A source drops an event that any of its
// predicates rejects, before the handler is called. Predicates do not change what the cache stores:
// see cache.Options for that.
//
// Predicates have no state, start no goroutine, and are safe for concurrent use.
package predicate
