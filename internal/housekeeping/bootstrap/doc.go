// Package bootstrap creates the objects that every server has after its start: the system
// namespaces, the priority classes of the system, and the service kubernetes with its endpoints.
//
// Its functions are idempotent, and safe for use by several servers of a store at the same time.
// They start no goroutine and hold no locks.
package bootstrap
