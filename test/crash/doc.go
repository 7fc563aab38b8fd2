// Package crash holds a test that kills the server while it is written to, and
// then looks whether what it had promised is true.
//
// Writers create, change and delete objects of a built-in and of a custom kind,
// each its own, and write down what was acknowledged and what was left open.
// Watchers write down what they are told. Then the process gets SIGKILL, a new
// one starts on the same data directory, and these must hold:
//
//   - every acknowledged write is there, and no acknowledged deletion came back;
//     a write without an answer has happened as a whole or not at all, and what a
//     watcher has seen has happened
//   - no resourceVersion is given twice, and none is lower than one given before
//   - a watch that goes on where it broke off gives each event once and in order,
//     up to the present, and so does one that starts further back
//
// The books (ledger_test.go) are functions of what was written down, with tests
// of their own that show which lies they find. A SIGKILL leaves the machine
// running: what a disk may lose without a sync is for the tests of the journal.
//
//	go test ./test/crash -long           200 rounds rather than 5
//	go test ./test/crash -rounds 1000 -timeout 3h
//	go test ./test/crash -seed 17        the same choices once more
package crash
