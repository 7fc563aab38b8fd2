// Package simulation runs a whole server in a simulation: a bubble of testing/synctest with a
// simulated clock, disk and network, which fail.
//
//	go test ./test/simulation                           20 seeds
//	go test ./test/simulation -seeds 1000               more
//	KAPOK_SEED=random go test ./test/simulation         others
//	KAPOK_SEED=17 go test ./test/simulation -seeds 1    one of them again
//	go test ./test/simulation -lasts 1m                 each longer, in virtual time
//
// # The simulation
//
// The server is that of kapok.Start, with its journal and background tasks. Clients and watchers of
// package linear use it over connections in memory; beside them, client-go creates namespaces,
// owners and dependents, applies config maps, deletes, and follows with an informer. In a fourth of
// the simulations the history is short, so that watches have to list again.
//
//   - The machine loses power, or the server is killed: at some time, or during some change of the
//     disk, including those of a start; or the server is stopped gracefully. Another one starts on
//     the resulting disk.
//   - The disk loses unsynced data, by sectors of 512 bytes and by names, in order or not. At times
//     it is slow or full, and some or all of its operations of one kind fail. The data of a failed
//     sync is lost at the next crash.
//   - The network delays data, and cuts connections after any byte of a request or a response.
//
// After a while all faults end: then the server must serve, and all watchers must receive
// everything.
//
// # Checks
//
// The history of all lives of the server is one, and linear.Check checks it: no acknowledged write
// is lost, no refused one happens, one of unknown outcome happens as a whole or never, no
// resourceVersion is used twice or goes back, lists show one revision, and each watch has every
// change once, in order, across all connections and crashes.
//
// At the end, the dependents of deleted owners and the contents of deleted namespaces are gone;
// everything else that was acknowledged exists, with its uid and creationTimestamp; applied objects
// have the last value; and the informer has exactly the existing objects. No server may report its
// files as damaged, or fail to start once all faults have ended. TestFindsLostSync checks that lost
// syncs are found.
//
// # Seeds
//
// The seed decides when the disk fails, how the lives of servers end, and what clients and the
// network do: each decision is a hash of the seed and the name of its subject, such as the third
// sync of one file. Goroutines run on one processor. The scheduler of Go, select, the order of
// maps, and uids are not controlled by the seed. So two runs of a seed are similar, and not equal:
// they differ by up to a third in the number of requests. To reproduce a failure may need several
// runs (-count 10); of two failures found during development, one occurred in four of eight runs,
// and the other in all. The last events of the machine are printed.
package simulation
