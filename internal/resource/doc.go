// Package resource implements the eight verbs of the API, subresources, patches and field
// management on the objects of the state.
//
// Built-in and custom kinds run through the same code. A [Definition] describes a kind, its [Model]
// is the schema, and its [Strategy] and [Deletion] are the few places in which kinds differ. A
// [Store] executes the verbs on the state machine.
//
// A write is the same for all verbs that store an object, and write.go has its steps in this order:
//
//	read current -> decode or patch -> normalise -> admit (mutate) -> normalise -> prepare
//	-> validate -> admit (validate) -> journal.Append
//
// Create, update, patch and apply, of objects and of subresources, differ only in how they derive
// the next object from the live one: see the type change. A write that conflicts with another one
// starts again from read, unless the client has set a resourceVersion. A creation reads nothing,
// and runs mutating admission once, however often it is tried.
//
// A deletion has the same steps, without those about a next object: admission comes first, and the
// appended entry is a removal, or sets deletionTimestamp if finalizers or a grace period delay the
// removal (see delete.go). An [Action] stores no object of its kind: its body is decoded and
// admitted, and the action does the rest. All of them commit through commit.go.
//
// Objects are processed as trees (decoded JSON) in the version of the request, and converted when
// they are read from and written to the state. Where a webhook converts, the verbs call it: the
// objects that they return can be decoded in the version of the request, and in no other. Errors
// are Kubernetes API errors, plain errors where Kubernetes responds with 500 and only a message, or
// those of the context. The package starts no goroutine. Its only state are caches of values
// derived from definitions, and the conversions that watches share.
package resource
