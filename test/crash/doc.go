// Package crash kills the server during writes, and then checks that its promises hold.
//
// Writers create, change and delete objects of a built-in and of a custom kind, each its own, and
// record which writes were acknowledged and which have an unknown outcome. Watchers record their
// events. Then the process gets SIGKILL, a new one starts on the same data directory, and the
// following must hold:
//
//   - every acknowledged write exists, and no object whose deletion was acknowledged; a write
//     without a response has happened as a whole or not at all, and a write that a watcher has
//     received has happened
//   - no resourceVersion is used twice, and none is lower than an earlier one
//   - a watch that continues where it broke off has each event once and in order, up to the
//     present, and so does one that starts further back
//
// The checks (ledger_test.go) are functions of the records, with tests of their own that show which
// violations they find. After a SIGKILL the machine still runs: tests of the journal and
// test/powercut cover what a disk may lose without a sync.
//
//	go test ./test/crash -long                200 rounds rather than 5
//	go test ./test/crash -rounds 1000 -timeout 3h
//	KAPOK_SEED=random go test ./test/crash    other choices
package crash
