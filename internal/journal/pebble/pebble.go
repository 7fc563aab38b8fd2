// Package pebble is the journal of one machine: a log-structured store on
// [github.com/cockroachdb/pebble/v2].
//
// # Layout
//
// One write is one record, and the record is all there is: objects and their
// history are the same store.
//
//	r<group>/<resource> 00 <revision>   what a key of the resource holds from that
//	                                    revision on; see record.go
//	m<name>                             marks about the whole: format, compacted,
//	                                    swept, head; see marks.go
//
// Revisions are big-endian, so the history of a resource is contiguous, and one
// scan in key order folds each resource. A record leaves when the record that
// supersedes it is itself behind the compacted revision: until then some event
// that may still be read tells of it.
//
// # Durability
//
// Append commits in groups (see [journal.Sequencer]), a synced write a group. The
// first error that the disk returns for a write freezes the files as they are
// then, as a crash would; see disk.go. From then on the journal takes no writes;
// it can be read, and closed.
//
// The directory and its files are for their owner only, whatever the umask. A
// directory is open once at a time.
//
// The package starts no goroutine; pebble's own (flushes, compactions) end with
// Close.
package pebble

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/object"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Journal implements [journal.Journal] on a directory.
type Journal struct {
	dir  string
	disk *disk
	lock *pebble.Lock
	db   *pebble.DB
	log  *slog.Logger

	sequencer *journal.Sequencer // set by Recover
	compacted atomic.Int64       // the mark; moves before any record leaves

	compacting sync.Mutex // one Compact at a time

	life struct {
		sync.RWMutex // read-held while db is used, write-held to close it
		closed       bool
	}
}

// Options are the settings of a Journal; zero values mean the defaults.
type Options struct {
	// Dir is the directory of the journal, made if it is missing. Required.
	Dir string
	// FS holds the directory. Default is the file system of the machine.
	FS vfs.FS
	// Logger gets what the store has to tell. Default slog.Default().
	Logger *slog.Logger
	// CacheBytes bounds the blocks of history kept in memory. Default 4 MiB.
	CacheBytes int64
	// MemTableBytes is how much is written to the log before it goes to a table.
	// Recovery reads back twice as much of the log at most. Default 4 MiB.
	MemTableBytes uint64
}

// Open opens the journal of a directory. It returns [journal.ErrLocked] where
// the directory is open already.
func Open(opts Options) (*Journal, error) {
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	j, err := open(opts)
	if err != nil {
		return nil, fmt.Errorf("open journal in %s: %w", opts.Dir, err)
	}
	return j, nil
}

func open(opts Options) (j *Journal, err error) {
	dir, files, err := prepare(opts)
	if err != nil {
		return nil, err
	}
	j = &Journal{dir: dir, disk: newDisk(files, opts.Logger), log: opts.Logger}
	if j.lock, err = pebble.LockDirectory(dir, files); err != nil {
		if path := (*fs.PathError)(nil); errors.As(err, &path) {
			return nil, err // the lock file could not be made
		}
		return nil, fmt.Errorf("%w: stop whoever has the directory open, or take another (%v)", journal.ErrLocked, err)
	}
	if j.db, err = pebble.Open(dir, j.settings(opts)); err != nil {
		j.lock.Close()
		return nil, err
	}
	if err = j.readMarks(); err == nil {
		err = j.disk.err()
	}
	if err != nil {
		j.db.Close()
		j.lock.Close()
		return nil, err
	}
	return j, nil
}

// prepare makes the directory and returns its one name and the files in it.
func prepare(opts Options) (string, vfs.FS, error) {
	if opts.Dir == "" {
		return "", nil, errors.New("no directory given")
	}
	if opts.FS != nil {
		return opts.Dir, opts.FS, opts.FS.MkdirAll(opts.Dir, 0o700)
	}
	if err := os.MkdirAll(opts.Dir, 0o700); err != nil {
		return "", nil, err
	}
	// A lock is held by name: two names of one directory must not look like two.
	dir, err := filepath.Abs(opts.Dir)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return "", nil, err
	}
	return dir, ownerOnly{vfs.Default}, os.Chmod(dir, 0o700)
}

// settings are for a store that is written more than it is read, next to a
// server whose memory it must not show in.
func (j *Journal) settings(opts Options) *pebble.Options {
	if opts.CacheBytes <= 0 {
		opts.CacheBytes = 4 << 20
	}
	if opts.MemTableBytes == 0 {
		opts.MemTableBytes = 4 << 20
	}
	set := &pebble.Options{
		FS:                 j.disk,
		Lock:               j.lock,
		Logger:             logger{j.log, j.disk},
		EventListener:      j.listener(),
		FormatMajorVersion: pebble.FormatTableFormatV6,
		CacheSize:          opts.CacheBytes,
		MemTableSize:       opts.MemTableBytes,
		// A burst may fill some tables before it has to wait for the first.
		MemTableStopWritesThreshold: 4,
		L0StopWritesThreshold:       1000,
		MaxOpenFiles:                128,
	}
	set.Experimental.FileCacheShards = 1
	set.Experimental.CompactionScheduler = newScheduler(j.disk)
	return set
}

// Append implements [journal.Journal].
func (j *Journal) Append(ctx context.Context, b journal.Batch) (object.Revision, error) {
	return j.sequencer.Append(ctx, b)
}

// commit makes a group of entries durable. One group is committed at a time.
func (j *Journal) commit(entries []journal.Entry) error {
	batch := j.db.NewBatchWithSize(batchSize(entries))
	defer batch.Close()
	var w writer
	for i := range entries {
		if err := w.put(batch, &entries[i]); err != nil {
			return err
		}
	}
	if err := j.db.Apply(batch, pebble.Sync); err != nil {
		return err
	}
	// Frozen files take any write, and keep none: what counts is that they were
	// not frozen when the sync returned.
	return j.disk.err()
}

// Sync implements [journal.Journal].
func (j *Journal) Sync(ctx context.Context) (behind bool, err error) { return j.sequencer.Sync(ctx) }

// Head implements [journal.Journal].
func (j *Journal) Head() (object.Revision, int64) { return j.sequencer.Head() }

// Close implements [journal.Journal]. It returns the error that ended the
// writing before, if there was one.
func (j *Journal) Close() error {
	if j.sequencer != nil {
		j.sequencer.Close()
	}
	j.life.Lock()
	defer j.life.Unlock()
	if j.life.closed {
		return nil
	}
	j.life.closed = true
	err := j.db.Close()
	if lockErr := j.lock.Close(); err == nil {
		err = lockErr
	}
	if failed := j.disk.err(); failed != nil {
		err = failed
	}
	if err != nil {
		return fmt.Errorf("close journal in %s: %w", j.dir, err)
	}
	return nil
}

// use keeps the database open until the function it returns is called.
func (j *Journal) use() (release func(), err error) {
	j.life.RLock()
	if j.life.closed {
		j.life.RUnlock()
		return nil, journal.ErrClosed
	}
	return j.life.RUnlock, nil
}
