// Package predicate says which events a controller hears of. A source asks its predicates before it
// calls its handler, and drops an event that one of them refuses. What the cache keeps is not their
// matter: see cache.Options for that.
//
// Predicates have no state and start no goroutine; several may call them.
package predicate
