// Package linear tests that the API is linearizable: for any concurrent operations of clients,
// through any endpoints, there is one order of all operations that explains every response and
// respects real time.
//
//	report := linear.Run(t, linear.Config{Endpoints: endpoints, Duration: time.Minute})
//	if err := linear.Check(report); err != nil {
//		t.Error(err)
//	}
//
// # The history
//
// [Run] has clients create, update, patch, delete, get and list a few objects of a built-in and of
// a custom kind, while watchers follow both kinds and nemeses (functions of the caller) stop, pause
// and restart the endpoints. No request is sent twice. Each becomes an [Operation] with the times
// of its call and its return, and with one outcome:
//
//	done      2xx, with the object in the response
//	refused   404, 409, 410, 429, 503, 507: nothing was written. 404 and 409 also make
//	          a statement about the object, which must be true
//	unknown   500, 504, a broken connection, a timeout: a write may happen at any
//	          time after its call, or never
//
// Every write has a unique value, which identifies it in reads.
//
// # The order
//
// A resourceVersion is the position of a write in the order of all writes, and responses have it,
// with one exception: the response to a delete has only the uid of the deleted object. Watchers
// receive the revision of a deletion, and a uid can be deleted once; that gives the deletion its
// position. So the ledger, which is built from the acknowledged writes and from the events of all
// watchers, is the order that the server claims, and the following must hold for it:
//
//   - The ledger is a history of objects: created where none existed, changed and deleted where one
//     existed, each time by one write whose preconditions held then. No write occurs twice, and no
//     refused one. An unknown one has happened if, and only if, it is in the ledger.
//   - Each operation has a point in that order, between its call and its return. That of a write is
//     its revision. A read with an unset resourceVersion, a list, a 404 and a 409 take the lowest
//     revision at which the response is true that is not below the points of operations that had
//     returned before the call. Processing the operations in the order of their calls and taking
//     the lowest revision each time finds points if there are any, because a choice only bounds
//     later ones from below. A write whose revision is not above that bound, and a read that is
//     true at no revision from there on, are violations: a stale read, for instance. Everything
//     that was observed must have been committed: events and reads from the past raise the bound
//     too.
//   - Reads with resourceVersion=0 can be stale, but the object must be in the ledger, and must not
//     be from the future. Those with a resourceVersion show a state at or after it, or exactly that
//     one.
//   - All pages of a list show one revision, at which they are the fold of the ledger.
//
// All this costs n log n and covers all keys and kinds together. As a second opinion, which relies
// neither on the ledger nor on the order of revisions, porcupine searches an order for the
// operations on each key. Its model of a key is the present object, and the newest revision so far.
//
// # Watches
//
// Each watcher is compared with the ledger for what etcd guarantees, over all connections from one
// list to the next, however often they broke off and wherever they continued:
//
//	ordered        revisions grow
//	unique         no event comes twice
//	reliable       no event between two that were received is missing
//	atomic         a revision is received as a whole. A write of the API has one object, so
//	               no revision comes in two events
//	resumable      a new connection continues after the last one's revision, without a gap
//	bookmarkable   after a bookmark only newer events follow
//
// At the end each must have received everything. If all watchers found at one time that history is
// gone (410), none of them saw the events of that time, and the ledger can lack deletions and
// writes of unknown outcome. If there are any, the history cannot be checked: [ErrUndecided].
// [Config.NoDeletes] avoids that.
//
// # Out of scope
//
// Whether a refusal without a reason (429, 503) was necessary; that reads with resourceVersion=0
// never go back for one client; events of selective watches; writes that change nothing.
//
// # Goroutines
//
// [Run] owns the goroutines of clients, watchers and nemeses, and waits for them.
package linear
