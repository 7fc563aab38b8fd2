// Package snapshot writes and reads the objects of a whole store, at one revision, as one portable
// stream: a backup.
//
// # Format
//
//	kapok snapshot v1\n       the magic, and the version of all that follows
//	{"revision":...}\n        the [Header], one line of JSON
//	records                   compressed as one zstd frame
//	\nsha256 HEX\n            of every byte before this line
//
// A record is a byte for its type, and its fields:
//
//	1  group, resource, namespace, name   each uvarint length, bytes
//	   revision                           uvarint
//	   schema                             8 bytes little-endian, fingerprint of the schema
//	   written                            varint nanoseconds since 1970; 0 if unknown
//	   raw                                uvarint length, bytes: canonical JSON
//	0  objects, bytes                     uvarint each: the number of records before this
//	                                      one, which is the last, and the length of their
//	                                      JSON
//
// Objects are sorted by group, resource, namespace and name, so that no key occurs twice. No
// revision occurs twice among the objects of one resource, as in a journal.
//
// # Promises
//
// A [Reader] returns nothing before it has verified the checksum of the whole file. It rejects
// files that are truncated, altered, foreign or newer with the errors below. No file can make it
// panic, or use more memory than its largest object and eight bytes for each object. A writer uses
// less; neither keeps the objects in memory.
//
// Objects are written unencrypted: protect snapshots of an encrypted store like its keys.
//
// The package starts no goroutine and has no locks.
package snapshot

import (
	"errors"
	"time"

	"github.com/kapok-dev/kapok/internal/object"
)

// Header describes the origin of a snapshot.
type Header struct {
	// Revision is the revision of the store when the snapshot was taken.
	Revision object.Revision `json:"revision"`
	// Time is the time when the snapshot was taken.
	Time time.Time `json:"time"`
	// Kubernetes is the version of the API that the server served.
	Kubernetes string `json:"kubernetes,omitempty"`
	// Salvaged is true if the store was damaged, so that objects may be missing or older than the
	// revision.
	Salvaged bool `json:"salvaged,omitempty"`
}

// Errors of a [Reader]. Compare with errors.Is.
var (
	// ErrForeign is returned for a file that is not a snapshot.
	ErrForeign = errors.New("not a snapshot of Kapok")
	// ErrNewer is returned for a snapshot in a newer format.
	ErrNewer = errors.New("snapshot of a newer format than this program reads")
	// ErrTruncated is returned for a snapshot whose end is missing.
	ErrTruncated = errors.New("snapshot is cut off: its end is missing")
	// ErrDamaged is returned for a snapshot that differs from what was written.
	ErrDamaged = errors.New("snapshot is damaged")
)

const (
	magic      = "kapok snapshot v"
	version    = "1"
	maxHeader  = 4 << 10  // maximum bytes of the header's line
	maxText    = 4 << 10  // maximum bytes of a part of a key
	maxObject  = 64 << 20 // maximum bytes of an object's JSON
	sumPrefix  = "\nsha256 "
	sumLength  = len(sumPrefix) + 64 + 1
	windowSize = 1 << 20 // bytes of the compression's window

	recordEnd    = 0
	recordObject = 1
)
