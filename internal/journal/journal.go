// Package journal defines the contract between the state machine and the journals
// that make its writes durable, and contains the code that local journals share.
//
// # Model
//
// A journal is an ordered sequence of entries. An entry is one object and one
// [object.Revision]; a [Batch] is some entries that commit whole or not at all.
// State is the fold of the committed entries, held by a [Sink].
//
// Two entries of one resource never share a revision, and every entry of a batch
// has a higher one than all entries of the batches before. Within a batch a
// journal may number the entries one by one, or give entries of different
// resources the same number (as etcd, where a transaction is one revision; it
// returns [errors.ErrUnsupported] for a batch that writes two objects of one
// resource).
//
// # Promises
//
//  1. Order. Revisions grow in the order of commits. Between Recover and Close
//     Sink.Apply sees every commit exactly once, in that order, and all entries
//     of a batch in one call.
//  2. Preconditions. A batch commits only if every entry's key is at Entry.Prev
//     and all its guards hold at the moment of its commit: of two writers that
//     expect the same revision one succeeds. A batch that fails has no effect, but
//     revisions may be skipped.
//  3. Durability. Append returns nil only when the batch is as durable as the
//     journal makes it, and has been applied to the Sink. Nothing is applied
//     that is not durable: readers never see a write that a crash could undo.
//  4. Unknown outcomes. When durability cannot be established (a failed sync, a
//     lost connection), Append returns [ErrUnknown]: the entries may be committed
//     or not. A journal that cannot write returns [ErrUnavailable], and recovers
//     automatically: a local one reads its files again, a replicated one
//     reconnects. If the entries turn out to be committed, Sink.Apply gets them
//     then, as it gets every commit.
//  5. Recovery. Recover hands the newest entry of each live key and the kept
//     history to the Sink, before any Append.
//  6. History. Entries after Compacted can be read with History, each with the
//     object that it replaced. Compact moves that bound forward, never back, and
//     removes nothing else: the newest entry of a live key stays forever.
//  7. Revisions are used once: even after a restart, and after everything has
//     been deleted and compacted, new entries are numbered above all old ones.
//  8. Consistency. When Sync returns, the Sink holds everything that was committed
//     by any writer when Sync was called. A journal with one writer is always there.
//  9. Close waits for running calls, and then for every goroutine that the
//     journal owns. Later calls return [ErrClosed].
//
// All methods of a Journal are safe for concurrent use, except Recover, which
// must be called first and has to return before any other call.
//
// # Errors in the API
//
//	*ConflictError           the write starts again from the current object, or 409
//	ErrTooLarge              500 in the words of etcd: nothing was written
//	ErrFull                  507: nothing was written; there is no space on the disk
//	ErrUnavailable, other    503 with Retry-After: nothing was written
//	ErrUnknown               504: the write may have happened
//	of a Sealer              500: nothing was written
//	ErrCompacted             410
//	ErrClosed                503: the server is stopping
//	*DamagedError            the server does not start; of History: 500
//
// Sync returns ErrUnavailable as well; reads that need not be consistent go on.
package journal

import (
	"context"
	"errors"
	"fmt"

	"github.com/kapok-dev/kapok/internal/object"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Entry is one write of one object.
type Entry struct {
	Key object.Key
	// Prev is the revision of the key that the writer has read and that this entry replaces: zero
	// if the key must not exist.
	Prev object.Revision
	// Revision is set by the journal.
	Revision object.Revision
	// Object is the new content of the key; nil deletes it. The journal sets its Revision before
	// any reader can see it.
	Object *object.Object
}

// A Guard is a condition on a key that the batch does not write: it must be at
// the given revision when the batch commits; zero means it must not exist.
type Guard struct {
	Key      object.Key
	Revision object.Revision
}

// A Batch is a set of entries that become durable and visible together. It has at least one entry,
// and at most one for each key.
type Batch struct {
	Entries []Entry
	Guards  []Guard
}

// Validate returns an error for a batch that no journal can commit, whatever its content: a bug in
// the caller.
func (b *Batch) Validate() error {
	if len(b.Entries) == 0 {
		return errors.New("batch has no entries")
	}
	for i := range b.Entries {
		e := &b.Entries[i]
		switch {
		case e.Object == nil && e.Prev == 0:
			return fmt.Errorf("batch deletes %s, which must not exist", e.Key)
		case e.Object != nil && e.Object.Key != e.Key:
			return fmt.Errorf("batch puts %s under the key %s", e.Object.Key, e.Key)
		}
		for j := range i {
			if b.Entries[j].Key == e.Key {
				return fmt.Errorf("batch writes %s twice", e.Key)
			}
		}
	}
	return nil
}

// Size returns the bytes for which an entry counts in limits on history.
func (e *Entry) Size() int {
	const overhead = 64
	n := overhead + len(e.Key.Namespace) + len(e.Key.Name)
	if e.Object != nil {
		n += len(e.Object.Raw)
	}
	return n
}

// A Sink folds entries into state.
type Sink interface {
	// Revision returns the committed revision of a key, zero if it is absent.
	Revision(object.Key) object.Revision
	// Apply makes committed entries visible, all at once. It is called by one goroutine at a time,
	// in the order of revisions. The sink may keep the entries, and must not modify them.
	Apply(entries []Entry)
	// Restore is Apply for entries that Recover reads. Entries of one resource arrive in the order
	// of revisions, those of different resources in any order.
	Restore(entry Entry)
	// Rebase is for a journal that missed commits after the sink's newest revision, up to head, and
	// knows only the current contents. The entries, each with the current revision of its key in
	// the sink as Prev, bring the sink to head. History up to head can only be read with
	// Journal.History, if at all.
	Rebase(entries []Entry, head object.Revision)
	// Unreadable reports that the content of a key, from the next Apply on, cannot be read, and
	// why; nil means that it can, or that the key was deleted. The sink must not treat unknown
	// content as absent.
	Unreadable(key object.Key, why error)
	// Restored ends recovery: head is the revision of the last commit, and the restored entries are
	// the complete history after since. Earlier history, back to Journal.Compacted, is read with
	// Journal.History.
	Restored(head, since object.Revision)
}

// A Record is an entry read from history, with the object that it replaced.
type Record struct {
	Entry
	Replaced *object.Object // nil if the entry created the object
}

// A Report is the result of Check.
type Report struct {
	Head, Compacted object.Revision
	Objects         int   // number of live objects
	Records         int   // number of stored entries, history included
	Bytes           int64 // size of these records
	Archived        int   // number of entries in the archive, and their size
	ArchivedBytes   int64
	Problems        []Problem
}

// A Problem is stored data that is damaged or inconsistent.
type Problem struct {
	// Key is the object concerned, as far as it is known.
	Key      object.Key
	Revision object.Revision // of the record; zero if the problem is not about a single record
	Text     string
}

// A Journal orders writes and makes them durable. The package doc lists its guarantees.
type Journal interface {
	Log
	History
	Admin
}

// A Log is the part of a Journal that commits entries, of which the state is the fold.
type Log interface {
	// Recover reads the journal into the sink, which then receives every commit. It is called once,
	// before all other methods except Close.
	Recover(ctx context.Context, sink Sink) error
	// Append commits the batch and returns the revision of its last entry; every object of the
	// batch then has its Revision. If a precondition does not hold, it returns *ConflictError,
	// after the sink has received the conflicting write: a caller that reads again and retries does
	// not spin. Once the commit has started, the context no longer cancels it.
	Append(ctx context.Context, batch Batch) (object.Revision, error)
	// Sync returns when the sink includes everything that any process committed before the call.
	// shared reports whether other processes may commit: then a read from the sink before the call
	// may have missed their writes.
	Sync(ctx context.Context) (shared bool, err error)
	// Head returns the revision of the newest commit, and the bytes of the entries up to it,
	// counted from the revision that was Compacted at Recover.
	Head() (object.Revision, int64)
	// Close releases the journal's resources.
	Close() error
}

// A History is the part of a Journal that reads old entries.
type History interface {
	// History returns up to limit records of one resource with revisions in (after, upTo], oldest
	// first. It returns ErrCompacted if some of them are gone, and ErrUnavailable if they cannot be
	// read at the moment.
	History(ctx context.Context, resource schema.GroupResource, after, upTo object.Revision, limit int) ([]Record, error)
	// KeepsHistory reports whether the journal has history. Without it, Compacted always equals
	// Head, History returns ErrCompacted, and only the sink's history can be read.
	KeepsHistory() bool
	// Compacted returns the revision up to which history is gone.
	Compacted() object.Revision
}

// An Admin is the part of a Journal that keeps it usable: health checks, the doctor and the
// [Compactor] call it.
type Admin interface {
	// Health returns nil while the journal accepts writes, and otherwise an ErrUnavailable or
	// ErrClosed with the reason.
	Health() error
	// Check reads and reports on everything that is stored. An error means that it could not read
	// all of it.
	Check(ctx context.Context) (Report, error)
	// Compact drops the history up to and including the revision, or all of it if upTo is above the
	// newest revision.
	Compact(ctx context.Context, upTo object.Revision) error
}

// An Undoer is a [History] that finds the contents of keys at an older revision at less cost than
// History.History, which decodes every record.
type Undoer interface {
	// Undo calls put once for each key of a resource that was written at revisions in (after,
	// upTo], in the order of these writes, with the key's content at after; nil if it did not
	// exist. It returns the errors of History, and the context's error if the context ends. Apart
	// from what put retains, it keeps only the names of the keys in memory.
	Undo(ctx context.Context, resource schema.GroupResource, after, upTo object.Revision, put func(object.Key, *object.Object)) error
}

// Errors of a Journal. Compare with errors.Is.
var (
	// ErrUnknown is returned by Append: whether the batch committed is not known.
	ErrUnknown = errors.New("outcome of the write is unknown")
	// ErrUnavailable is returned by Append and Sync: the journal does not accept writes now,
	// and nothing was written.
	ErrUnavailable = errors.New("journal does not accept writes")
	// ErrFull is an ErrUnavailable: there is no room for writes.
	ErrFull = fmt.Errorf("%w: no space left", ErrUnavailable)
	// ErrTooLarge is returned by Append: an object is larger than the journal takes.
	ErrTooLarge = errors.New("object is too large")
	// ErrCompacted is returned by History: some of the entries are gone.
	ErrCompacted = errors.New("history has been compacted")
	// ErrLocked is returned when a journal is opened: another process, or this one,
	// has it open.
	ErrLocked = errors.New("journal is in use")
	// ErrClosed is returned by all methods after Close, except Close itself, which
	// does nothing then.
	ErrClosed = errors.New("journal is closed")
)

// DamagedError is returned if the stored bytes cannot be those that were written.
type DamagedError struct {
	What   string // is damaged, and where
	Advice string // what to do about it
	Err    error  // may be nil
}

// Error implements error.
func (e *DamagedError) Error() string {
	text := "damaged: " + e.What
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	if e.Advice != "" {
		text += " (" + e.Advice + ")"
	}
	return text
}

// Unwrap returns the cause, for [errors.Is] and [errors.As].
func (e *DamagedError) Unwrap() error { return e.Err }

// ConflictError is returned by Append: a precondition does not hold.
type ConflictError struct {
	Key     object.Key
	Want    object.Revision // what the writer expected
	Current object.Revision // what the key is at; zero if absent
	Guard   bool            // it was a guard that failed, not an entry
}

// Error implements error.
func (e *ConflictError) Error() string {
	return fmt.Sprintf("%s is at revision %d, expected %d", e.Key, e.Current, e.Want)
}
