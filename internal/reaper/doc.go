// Package reaper is what the server removes by itself: dependents whose owners are gone, the contents of namespaces that
// are being deleted, and objects whose time is up. Objects of storage that are being deleted, and that nobody uses, lose the
// finalizer that keeps them as long as somebody does.
//
// # What it promises
//
// A dependent is deleted only when all its owners are known to be gone, and never when one of them may exist. An owner is
// gone if its kind is served here in the version that the reference names, if the scopes fit, and if no object of that
// name has the uid; or if the reaper has seen the object of that uid go, which is how dependents of custom resources go
// when the kind itself is on its way out. Otherwise the dependent stays, and is looked at again when it changes, or when
// other kinds are served. The look at the state is consistent whatever replica takes it: revisions are applied in order,
// and whoever sees a dependent has seen the write that created the owner whose uid it names. Every removal carries the uid
// and the resourceVersion of what was looked at.
//
// Deletion of owners is in the background (dependents follow when the owner is gone), in the foreground (dependents that
// block their owner go first) or orphaning (dependents forget their owner), as finalizers on the owner say. Cycles of
// owners that are deleted in the foreground are broken as Kubernetes breaks them.
//
// Admission is asked about what it deletes and changes, as it is about what Kubernetes' garbage collector and namespace controller
// do, and sees their service accounts. What admission refuses is tried again, ever less often. Objects whose time is up are
// no matter of admission.
//
// # Goroutines and locks
//
// A [Reaper] owns one goroutine. It works off a queue of keys, fed by the events of all resources that matter to it; all
// it knows is derived from the state, so that a start looks at everything once and needs nothing else. Timers are for
// retries and for objects with an end, nothing is polled.
package reaper
