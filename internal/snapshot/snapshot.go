// Package snapshot writes and reads the objects of a whole store, at one
// revision, as one portable stream: a backup.
//
// # Format
//
//	kapok snapshot v1\n       the magic, and the version of all that follows
//	{"revision":...}\n        the [Header], one line of JSON
//	records                   compressed as one zstd frame
//	\nsha256 HEX\n            of every byte before this line
//
// A record is a byte that says which, and its fields:
//
//	1  group, resource, namespace, name   each uvarint length, bytes
//	   revision                           uvarint
//	   schema                             8 bytes little-endian, fingerprint of the schema
//	   written                            varint nanoseconds since 1970; 0 if unknown
//	   raw                                uvarint length, bytes: canonical JSON
//	0  objects, bytes                     uvarint each: how many records came before
//	                                      this one, which is the last, and the length
//	                                      of their JSON
//
// Objects are ordered by group, resource, namespace and name, so no key occurs
// twice; nor does a revision among the objects of one resource, for no journal
// could hold that.
//
// # Promises
//
// A [Reader] tells nothing of a file before it has checked the sum over all of it.
// Files that are cut off, altered, foreign or newer are refused with the errors
// below; no file makes it panic, or take more memory than its largest object and
// eight bytes an object besides. Writing takes less: neither holds the objects.
//
// Objects are written as they are in memory: who encrypts his store at rest must
// keep its snapshots as safe as its keys.
//
// The package starts no goroutine and has no locks.
package snapshot

import (
	"errors"
	"time"

	"github.com/kapok-dev/kapok/internal/object"
)

// Header says what a snapshot is of.
type Header struct {
	// Revision is that of the store when the snapshot was taken.
	Revision object.Revision `json:"revision"`
	// Time is when that was.
	Time time.Time `json:"time"`
	// Kubernetes is the version of the API that the server served.
	Kubernetes string `json:"kubernetes,omitempty"`
	// Salvaged says that the store was damaged, and that objects may be missing or
	// older than the revision.
	Salvaged bool `json:"salvaged,omitempty"`
}

// Errors of a [Reader]. Compare with errors.Is.
var (
	// ErrForeign is returned for a file that is no snapshot.
	ErrForeign = errors.New("not a snapshot of Kapok")
	// ErrNewer is returned for a snapshot that a newer program has written.
	ErrNewer = errors.New("snapshot of a newer format than this program reads")
	// ErrTruncated is returned for a snapshot that does not go on to its end.
	ErrTruncated = errors.New("snapshot is cut off: its end is missing")
	// ErrDamaged is returned for a snapshot that is not what was written.
	ErrDamaged = errors.New("snapshot is damaged")
)

const (
	magic      = "kapok snapshot v"
	version    = "1"
	maxHeader  = 4 << 10  // bytes of the header's line
	maxText    = 4 << 10  // bytes of a part of a key
	maxObject  = 64 << 20 // bytes of an object's JSON
	sumPrefix  = "\nsha256 "
	sumLength  = len(sumPrefix) + 64 + 1
	windowSize = 1 << 20 // bytes that the compression looks back

	recordEnd    = 0
	recordObject = 1
)
