// Package metamorphic runs random operations on servers with different options, whose responses
// must be equal, and equal to those of a simple model.
//
//	metamorphic.Run(t, metamorphic.Config{Runs: 3, Configurations: configurations})
//
// # Operations
//
// An operation is a verb and a random number. A [model], which is a map with its whole history,
// makes a step of it: objects are created, updated, patched and deleted, with preconditions that
// may not hold and with finalizers; they are read, listed at the newest and at older versions, in
// pages that continue much later, and watched from older versions. Between them the history is
// compacted, and the server is restarted with other options, ends as by SIGKILL, examines its
// store, or continues with a store that was restored from a snapshot.
//
// The model also returns the answer: code and reason, objects, events, resourceVersions by their
// order, and the number of remaining items of a list. Values that differ between servers (uids,
// resourceVersions, continue tokens) have names in steps and answers; a [client] for each server
// translates them. The model does not have other fields, such as managedFields and messages: they
// must be equal on all servers.
//
// # Allowed differences
//
// A server whose history can end before the last compaction ([Configuration.Forgetful]) may return
// 410 to requests for the past. After a change of encryption a write without changes stores the
// object again, as in Kubernetes: the client of such a server skips these events.
//
// # Versions
//
// testdata has data directories written by older programs, one for each form of the files, some
// encrypted and some after SIGKILL, each with the commits that a model made of its operations. The
// present server must show everything that was written, at every version and in every watch, and
// then continue with random operations; the same holds for the snapshots of the older programs. A
// change of the stored form adds a directory: see versions_test.go.
//
// # Failures
//
// The seed is printed. Operations are removed as long as the run still fails, and the rest is
// printed as steps, with the configurations that differ.
//
//	go test ./test/metamorphic -long
//	KAPOK_SEED=random go test ./test/metamorphic
package metamorphic
