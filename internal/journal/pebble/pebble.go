// Package pebble is the journal for a single machine: a log-structured store on
// [github.com/cockroachdb/pebble/v2].
//
// # Layout
//
// One write is one record, and records are all that is stored: objects and their history are in the
// same store.
//
//	r<group>/<resource> 00 <revision>   what a key of the resource holds from that
//	                                    revision on; see record.go
//	a..., q...                          the archive: records of chosen objects that
//	                                    have left the history; see archive.go
//	m<name>                             marks about the whole: format, compacted,
//	                                    swept, totals, lost; see marks.go
//
// Revisions are big-endian, so the history of a resource is contiguous, and one scan in key order
// folds each resource. A record is removed when the record that supersedes it is itself behind the
// compacted revision: until then some readable event refers to it. The archive is not a part of
// the state: recovery does not read it, and totals and salvage leave it out.
//
// # Durability
//
// Append commits in groups (see [journal.Sequencer]), with one synced write for each group. The
// first write error of the disk freezes the files, in the state that a crash would leave; see
// disk.go. From then on the journal rejects writes, and its history cannot be read, until it has
// reopened the files, made their contents durable, and applied the entries whose outcome was
// unknown; see revive.go.
//
// # Damage
//
// Blocks and logs have checksums. Three mechanisms detect what checksums cannot, that something is
// missing as a whole: each group records the totals of the store (totals.go), the file HEAD records
// what has been acknowledged (head.go), and history has no gaps except known ones. All of these are
// compared whenever the store is opened, before a file is removed. A mismatch is a
// [journal.DamagedError]; [Salvage] reads what remains.
//
// Only their owner can access the directory and its files, whatever the umask. A directory can be
// open only once.
//
// The package starts a goroutine when the files fail, which ends when the journal has recovered,
// and one that closes the snapshots of readers. Both, and pebble's own (flushes, compactions), end
// with Close.
package pebble

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/object"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Journal implements [journal.Journal] on a directory.
type Journal struct {
	opts  Options
	dir   string
	files vfs.FS
	lock  io.Closer // nil if a read-only directory cannot be locked

	sequencer *journal.Sequencer // set by Recover
	compacted atomic.Int64       // the mark; moved before any record is removed
	stats     counters

	compacting sync.Mutex // held by Compact

	scarce    atomic.Bool // the reserve has been released; see room.go
	restoring sync.Mutex  // held while the reserve is recreated

	ctx     context.Context // of the goroutine that reopens the files; canceled by Close
	cancel  context.CancelFunc
	revival sync.WaitGroup

	// Obsolete files of failed attempts of openStore. Owned by the goroutine that opens the store.
	leftovers map[string]struct{}

	life struct {
		sync.RWMutex
		store  *store // counts its users
		closed bool
	}
}

// Options are the settings of a Journal. Zero values mean the defaults.
type Options struct {
	// Dir is the directory of the journal. It is created if it is missing. Required.
	Dir string
	// ReadOnly opens an existing journal without changing any file. Append and Compact return
	// ErrUnavailable.
	ReadOnly bool
	// Sealer encrypts objects at rest. Default nil: no encryption.
	Sealer journal.Sealer
	// Archive selects the objects whose revisions are kept when they leave the history. Their time
	// counts from the sweep that moves them. Default: none.
	Archive journal.Archive
	// FS contains the directory. Default: the file system of the machine.
	FS vfs.FS
	// Unsynced leaves it to the operating system when written data reaches the disk: acknowledged
	// writes survive the end of the process, and may be lost if the machine fails.
	Unsynced bool
	// Logger receives the messages of the store. Default slog.Default().
	Logger *slog.Logger
	// Progress is called while Recover reads, every 1024 records, with the number of objects that it
	// has read, and of those that the store has; and while Salvage reads, every 1024 writes, with the
	// number of writes that it has read in all passes, and of those that it expects, which is 0 until
	// the first pass ends. It must not block. Default: it is not called.
	Progress func(read, total int64)
	// CacheBytes limits the cached blocks of history. Default 4 MiB.
	CacheBytes int64
	// MemTableBytes is the amount of data that is written to the log before it is moved to a table.
	// Recovery reads at most twice as much of the log. Default 4 MiB.
	MemTableBytes uint64

	// ReserveBytes is the size of a file that is removed when the disk is full, so that deletions
	// and compaction can continue. It is reduced to a fourth of the disk if it would be larger.
	// Default 48 MiB on the file system of the machine, and none on FS.
	ReserveBytes int64

	firstRetry time.Duration // after a failure; see revive.go
}

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.CacheBytes <= 0 {
		o.CacheBytes = 4 << 20
	}
	if o.MemTableBytes == 0 {
		o.MemTableBytes = 4 << 20
	}
	if o.ReserveBytes == 0 && o.FS == nil {
		o.ReserveBytes = defaultReserve
	}
	if o.Archive.Bytes == 0 {
		o.Archive.Bytes = journal.DefaultArchiveBytes
	}
	if o.firstRetry == 0 {
		o.firstRetry = 100 * time.Millisecond
	}
	return o
}

// Open opens the journal of a directory. It returns [journal.ErrLocked] if the directory is already
// open, and a [journal.DamagedError] if the files are damaged.
func Open(opts Options) (*Journal, error) {
	j, err := lockDirectory(opts)
	if err == nil {
		j.ensureReserve()
		if j.life.store, err = j.openStore(); err == nil {
			j.compacted.Store(int64(j.life.store.marks.compacted))
			return j, nil
		}
		if noRoom(err) {
			need, free, _ := j.room()
			err = fmt.Errorf("%w: %d bytes are free on its disk, at least %d are required: %w", journal.ErrFull, free, need, err)
		}
		j.unlock()
	}
	return nil, fmt.Errorf("open journal in %s: %w", opts.Dir, err)
}

// lockDirectory creates a Journal that has locked its directory and has not opened it.
func lockDirectory(opts Options) (*Journal, error) {
	dir, files, err := prepare(opts)
	if err != nil {
		return nil, err
	}
	if opts.Unsynced {
		files = unsynced{files}
	}
	j := &Journal{opts: opts.withDefaults(), dir: dir, files: files, leftovers: map[string]struct{}{}}
	j.ctx, j.cancel = context.WithCancel(context.Background())
	j.lock, err = files.Lock(files.PathJoin(dir, "LOCK"))
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		if opts.ReadOnly {
			return j, nil // a directory without write access needs no lock
		}
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("%w: stop the process that has the directory open, or use another directory (%v)", journal.ErrLocked, err)
	}
	return j, nil
}

func (j *Journal) unlock() error {
	j.cancel()
	if j.lock == nil {
		return nil
	}
	return j.lock.Close()
}

// prepare creates the directory and returns its canonical name and its file system.
func prepare(opts Options) (string, vfs.FS, error) {
	if opts.Dir == "" {
		return "", nil, errors.New("Options.Dir is empty: set the directory of the journal")
	}
	files, dir := opts.FS, opts.Dir
	if files == nil {
		files = ownerOnly{vfs.Default}
		if !opts.ReadOnly {
			if err := os.MkdirAll(dir, 0o700); err != nil {
				return "", nil, err
			}
			if err := os.Chmod(dir, 0o700); err != nil {
				return "", nil, err
			}
			// The names of new directories must survive a power failure, too.
			for parent := range 2 {
				_ = syncDir(files, filepath.Join(dir, strings.Repeat("../", parent+1))) // the process may lack permission to open it
			}
		}
		// Locks are held by name: two names of one directory must map to one.
		name, err := filepath.Abs(dir)
		if err == nil {
			dir, err = filepath.EvalSymlinks(name)
		}
		return dir, files, err
	}
	if opts.ReadOnly {
		_, err := files.Stat(dir)
		return dir, files, err
	}
	return dir, files, files.MkdirAll(dir, 0o700)
}

// settings are for a store that is written more than read, in a server whose memory it must not
// dominate.
func (j *Journal) settings(s *store) *pebble.Options {
	set := &pebble.Options{
		FS:                 s.disk,
		ReadOnly:           s.readOnly,
		Logger:             logger{j.opts.Logger, s.disk},
		EventListener:      listener(j.opts.Logger, s.disk),
		FormatMajorVersion: pebble.FormatTableFormatV6,
		CacheSize:          j.opts.CacheBytes,
		MemTableSize:       j.opts.MemTableBytes,
		// A burst may fill some tables before it must wait for the first.
		MemTableStopWritesThreshold: 4,
		L0StopWritesThreshold:       1000,
		MaxOpenFiles:                128,
	}
	set.Experimental.FileCacheShards = 1
	set.Experimental.CompactionScheduler = newScheduler(s.disk)
	return set
}

// Append implements [journal.Journal].
func (j *Journal) Append(ctx context.Context, b journal.Batch) (object.Revision, error) {
	if j.scarce.Load() && !frees(&b) {
		if err := j.shortage(); err != nil {
			return 0, err
		}
	}
	if err := j.sealable(&b); err != nil {
		return 0, err
	}
	return j.sequencer.Append(ctx, b)
}

// sealable returns an error if an object of a batch cannot be encrypted now. A failure during the
// commit would fail all batches of the group.
func (j *Journal) sealable(b *journal.Batch) error {
	if j.opts.Sealer == nil {
		return nil
	}
	for i := range b.Entries {
		if e := &b.Entries[i]; e.Object != nil {
			if err := j.opts.Sealer.Ready(e.Key); err != nil {
				return err
			}
		}
	}
	return nil
}

// Sync implements [journal.Journal].
func (j *Journal) Sync(ctx context.Context) (shared bool, err error) { return j.sequencer.Sync(ctx) }

// Head implements [journal.Journal].
func (j *Journal) Head() (object.Revision, int64) { return j.sequencer.Head() }

// KeepsHistory implements [journal.Journal].
func (j *Journal) KeepsHistory() bool { return true }

// Health implements [journal.Journal].
func (j *Journal) Health() error {
	if err := j.sequencer.Health(); err != nil {
		return err
	}
	return j.shortage()
}

// Close implements [journal.Journal]. If the files have failed, it returns that error.
func (j *Journal) Close() error {
	j.cancel()
	if j.sequencer != nil {
		j.sequencer.Close()
	}
	j.life.Lock()
	closed := j.life.closed
	j.life.closed = true
	j.life.Unlock()
	if closed {
		return nil
	}
	j.revival.Wait() // it ends with ctx, and starts only while closed is not set
	s := j.life.store
	err := s.close()
	if failed := s.disk.err(); failed != nil {
		err = failed
	}
	if err = errors.Join(err, j.unlock()); err != nil {
		return fmt.Errorf("close journal in %s: %w", j.dir, err)
	}
	return nil
}

// use returns the open store, and keeps it open until release is called.
func (j *Journal) use() (s *store, release func(), err error) {
	j.life.RLock()
	defer j.life.RUnlock()
	if j.life.closed {
		return nil, nil, journal.ErrClosed
	}
	s = j.life.store
	s.users.Add(1)
	return s, s.users.Done, nil
}

var (
	_ journal.Journal = (*Journal)(nil)
	_ journal.Undoer  = (*Journal)(nil)
)
