// Package overload attacks a real server with real clients, and measures the effect on a small
// user.
//
//	go test ./test/overload -overload -v                                run all rows, some minutes
//	go test ./test/overload -overload -run TestOverload/bigWrites -v    run one row
//	go test ./test/overload -overload -long -timeout 1h -v              attack each row for a minute
//	go test ./test/overload -overload -binary ./kapok -v                attack a binary that is built already
//
// Without the flag -overload the test is skipped: it measures time, which needs an otherwise idle
// machine. The rows are in attacks_test.go.
//
// # One row
//
// The server, kapok up on its own data directory, runs as a process with 512 MB of memory and one
// core: in a Linux control group (v1 or v2) if the test can create one, which needs root. Elsewhere
// it gets GOMAXPROCS=1 and GOMEMLIMIT=400MiB, the floor below is five times as high, and the log
// mentions it.
//
// The victim is a user with the role edit in its own namespace, and a process of its own. It has
// one connection, on which it sends 50 gets and 50 creates a second. It is measured alone, and then
// again during the attack: by users with the role edit (in some rows admin) in another namespace,
// or by clients without credentials.
//
// A row passes if all of these hold:
//
//   - the server is running, and was not killed for its memory
//   - the victim got no 429, no error, and each response within the time limit of a request
//   - the 99th percentile of the victim's gets, and that of its creates, is at most ten times that
//     before the attack. An idle percentile below the floor (see cage in cage_test.go) counts as
//     the floor, so that the noise of a machine does not fail the test. The floor is higher on a
//     machine that is slower than that of package yardstick
//   - after the attack, goroutines and anonymous memory return to about their former numbers
//   - all objects that the server has acknowledged to the victim exist
//
// A row that fails is repeated up to two times, on a new server, before it counts as failed. The
// figures of all runs are logged as a table.
//
// Everything happens on the loopback interface, is bounded in count and time, and ends with the
// test.
package overload
