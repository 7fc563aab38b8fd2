// Package resource is what happens to an object between a request and the
// journal: the eight verbs, subresources, patches and field management.
//
// Built-in and custom kinds run through the same code. A [Definition] says what a
// kind is; its [Model] knows the schema; its [Hooks] are the few places in which
// kinds differ. A [Store] carries the verbs out against the state machine.
//
// A write goes, in this order:
//
//	read current -> decode or patch -> normalise -> manage fields -> prepare
//	-> validate -> encode -> journal.Append
//
// and starts again from the top when somebody else has written in between, unless
// the client has said which resourceVersion it means.
//
// Objects travel as trees (decoded JSON) in the version of the request; they are
// converted when they are read from and written to the state. Where a webhook
// converts, that happens inside the verbs: what they return can be decoded in the
// version of the request, and in no other. All errors are those of the Kubernetes
// API, or plain where Kubernetes answers 500 with nothing but a message, or the
// context's. The package starts no goroutine and has no state but caches of what is
// derived from definitions, and the conversions that watches share.
package resource
