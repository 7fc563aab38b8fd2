// Package stores has stores that earlier versions of Kapok wrote, and checks that this version
// opens them.
//
// Each version has a directory in testdata, with an archive for a server that stopped, for one that
// was killed, and for one with encryption at rest. An archive contains
//
//	data             the data directory, without the reserve for a full disk
//	objects.json     all objects, as that version served them: paths of lists, with their items
//	snapshot         what kapok snapshot save wrote
//	encryption.yaml  the configuration of encryption at rest, if there is one
//
// The objects are those of writes.txt, and what the server and its controllers made of them. The
// test opens each store and each snapshot, compares all objects with the recorded ones (every field
// and number), writes, and opens it again. A difference is a change that users of that version
// would notice: it needs a conversion in the server. Archives never change.
//
// Keys and certificates in the archives are those of servers that no longer exist.
//
// The names of versions before the first release are the dates and the hashes of commits. A release
// adds its own archives, by its program:
//
//	go run ./test/stores/record --kapok PROGRAM --version v0.1.0
package stores
