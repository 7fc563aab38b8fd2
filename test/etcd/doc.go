// Package etcd shows that the contract of package journal fits etcd: it holds the
// sketch of a journal on etcd, and runs the conformance suite on it, against an
// etcd in the same process.
//
// # How the contract maps
//
//	entry                  a key under the prefix, at its ModRevision
//	batch                  one transaction: all of it has one revision
//	precondition, guard    a compare of ModRevision; absent keys have zero
//	Apply                  the watch, from the revision of recovery on: every replica
//	                       applies what etcd has committed, in its order, its own
//	                       writes, too
//	Append returns         when the watch has brought its revision
//	Recover                a range over the prefix at one revision; Restored says that
//	                       history before that is to be read with History
//	History                a watch from an older revision with the previous values,
//	                       until it is known to have reached the end
//	Compacted              a key of its own, written before etcd is asked to compact,
//	                       so that all replicas agree and a deletion is never missed
//	unknown outcome        any error of a transaction that was sent
//	a watch that is lost   the journal takes no writes until it is opened again
//
// # What the contract had to learn from it
//
//   - A batch may have one revision for all its entries, and may then hold one
//     object of a resource only.
//   - What Recover restores need not reach back as far as History does: hence the
//     second argument of Sink.Restored.
//   - A conflict may be known before the sink has seen what it conflicts with; who
//     reads again and retries would spin. So Append waits for that.
//   - Others write, too: revisions are skipped, and nothing may depend on their
//     being consecutive.
//
// # What the sketch leaves out
//
// Paging the range and the size of transactions (etcd allows 128 operations and
// 1.5 MiB), reconnecting without recovery, leases, and values in kube-apiserver's
// encoding.
package etcd
