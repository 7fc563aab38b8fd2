// Package linear shows that the API is linearizable: that whatever clients do at
// the same time, through whichever endpoint, there is one order of all that they
// did which explains every answer and respects real time.
//
//	report := linear.Run(t, linear.Config{Endpoints: endpoints, Duration: time.Minute})
//	if err := linear.Check(report); err != nil {
//		t.Error(err)
//	}
//
// # The history
//
// [Run] lets clients create, update, patch, delete, get and list a few objects of
// a built-in and of a custom kind, while watchers follow both kinds and nemeses
// (functions that the caller brings) stop, pause and restart the endpoints. No
// request is sent twice. Each becomes an [Operation] with the moments of its call
// and its return, and with one outcome:
//
//	done      2xx, with what the answer shows
//	refused   404, 409, 410, 429, 503, 507: nothing was written. 404 and 409 also say
//	          something about the object, which has to be true
//	unknown   500, 504, a broken connection, patience over: a write may happen at any
//	          time after its call, or never
//
// Every write has a value that no other has, so that what is read tells which
// write it came from.
//
// # The order
//
// A resourceVersion is the place of a write in the order of all writes, and
// answers show it, with one exception: the answer to a deletion has the uid of
// what it removed only. Watchers are told of the revision of a deletion, and a uid
// can be deleted once; that gives it its place. So the ledger, which is made of
// the acknowledged writes and of the events of all watchers, is the order that the
// server claims, and what is left is to judge that claim:
//
//   - The ledger is a history of objects: created where nothing was, changed and
//     deleted where something was, each time by one write whose preconditions held
//     then. No write is there twice, and no refused one. An unknown one that
//     is there has happened; one that is not has not.
//   - Each operation has a point in that order, between its call and its return.
//     That of a write is its revision. A read with an unset resourceVersion, a list,
//     a 404 and a 409 take the lowest revision at which their answer is true that is
//     not below the points of operations that had returned before the call. Going
//     through the operations in the order of calls and taking the lowest each time
//     finds points if there are any: the choice only bounds later ones from
//     below. A write whose revision is not above that bound, and a read that is true
//     nowhere from there on, are violations: a stale read, for instance.
//     What is seen in any way is bound to have been committed: events and reads
//     from the past raise the bound, too.
//   - Reads with resourceVersion=0 may be stale, but not invented: the object must be
//     in the ledger, and must not come from the future. Those with a resourceVersion
//     show a state at or after it, or exactly that one.
//   - All pages of a list show one revision, at which they are the fold of the ledger.
//
// All this costs n log n and holds for all keys and kinds together. As a second
// opinion, which relies neither on the ledger nor on revisions being the order,
// porcupine searches an order for the operations on each key. Its
// model of a key is the object that is there, and the newest revision that was.
//
// # Watches
//
// Each watcher is judged against the ledger for what etcd guarantees, over all
// connections from one list to the next, however often they broke off and wherever
// they went on:
//
//	ordered        revisions grow
//	unique         no event comes twice
//	reliable       no event between two that were seen is missing
//	atomic         a revision is seen whole. A write of the API has one object, so this
//	               says that no revision comes in two events
//	resumable      a new connection goes on after the last one's revision, without gap
//	bookmarkable   after a bookmark nothing comes that is not newer
//
// In the end each must have come up to the present. Where all watchers were told at
// one time that history is gone (410), nobody was told what had happened, and the
// ledger may lack deletions and writes of unknown outcome. If there are any, the
// history cannot be judged: [ErrUndecided]. [Config.NoDeletes] avoids that.
//
// # What is not judged
//
// Whether a refusal without a reason (429, 503) was necessary; that reads with
// resourceVersion=0 do not go back for one client; events of selective watches;
// writes that change nothing.
package linear
