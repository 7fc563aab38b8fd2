// Package reaper removes objects without a client's request: dependents whose owners are gone, the
// contents of namespaces that are being deleted, and objects whose time to live has passed. It also
// removes the finalizer of storage objects that are being deleted and not in use.
//
// # Promises
//
// A dependent is deleted only if all its owners are known to be gone, and never if one of them may
// exist. An owner is gone if its kind is served in the version that the reference names, the scopes
// fit, and no object of that name has the uid; or if the reaper has seen the object with that uid
// go, which covers dependents of custom resources whose kind is being deleted. Otherwise the
// dependent stays, and is processed again when it changes, or when other kinds are served. The
// state is consistent on every replica: revisions are applied in order, so that a state with a
// dependent includes the write that created the owner whose uid it names. Every removal has
// preconditions on uid and resourceVersion.
//
// Owners are deleted in the background (dependents follow when the owner is gone), in the
// foreground (dependents that block their owner go first) or with orphaning (dependents lose their
// reference), as finalizers on the owner say. Cycles of owners in foreground deletion are broken as
// in Kubernetes.
//
// Deletes and updates pass admission as those of Kubernetes' garbage collector and namespace
// controller do, under the names of their service accounts. What admission rejects is retried with
// growing pauses. The removal of expired objects bypasses admission.
//
// # Goroutines and locks
//
// A [Reaper] owns one goroutine. It processes a queue of keys, fed by the events of all relevant
// resources: it decides for some of them, then makes their writes concurrently, in goroutines that
// it waits for. Decisions stay valid while others are written, because writes have preconditions.
// Its state is derived from the state of the server, so that a start processes all objects once. It
// uses timers for retries and for expiring objects, and does not poll.
package reaper
