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
//	                                    swept, totals, lost; see marks.go
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
// then, as a crash would; see disk.go. From then on the journal takes no writes, and
// its history cannot be read, until it has opened the files anew, made durable what
// it found there, and applied what nobody knew to be there; see revive.go.
//
// # Damage
//
// Blocks and logs have checksums. What checksums cannot tell, that something is
// missing as a whole, three things do: each group says what the store holds in all
// (totals.go), the file HEAD what has been acknowledged (head.go), and history has
// no gaps but those that are known. All of it is compared whenever the store is
// opened, before a file is removed. What does not fit is a [journal.DamagedError];
// [Salvage] reads what is left.
//
// The directory and its files are for their owner only, whatever the umask. A
// directory is open once at a time.
//
// The package starts a goroutine when the files fail, which ends when the journal
// has come back; it, and pebble's own (flushes, compactions), end with Close.
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
	lock  io.Closer // nil where a read-only directory cannot be locked

	sequencer *journal.Sequencer // set by Recover
	compacted atomic.Int64       // the mark; moves before any record leaves
	stats     counters

	compacting sync.Mutex // one Compact at a time

	ctx     context.Context // of the goroutine that comes back; ended by Close
	cancel  context.CancelFunc
	revival sync.WaitGroup

	// Files made in vain by openStore; of whoever opens the store.
	leftovers map[string]struct{}

	life struct {
		sync.RWMutex
		store  *store // counts its users
		closed bool
	}
}

// Options are the settings of a Journal; zero values mean the defaults.
type Options struct {
	// Dir is the directory of the journal, made if it is missing. Required.
	Dir string
	// ReadOnly opens a journal that is there, to look at it: no file is changed.
	// Append and Compact return ErrUnavailable.
	ReadOnly bool
	// Sealer encrypts objects on their way to the disk. Default none.
	Sealer journal.Sealer
	// FS holds the directory. Default is the file system of the machine.
	FS vfs.FS
	// Unsynced leaves to the operating system when what has been written goes to the disk: what has been
	// acknowledged outlives the process, and may be lost with the machine.
	Unsynced bool
	// Logger gets what the store has to tell. Default slog.Default().
	Logger *slog.Logger
	// CacheBytes bounds the blocks of history kept in memory. Default 4 MiB.
	CacheBytes int64
	// MemTableBytes is how much is written to the log before it goes to a table.
	// Recovery reads back twice as much of the log at most. Default 4 MiB.
	MemTableBytes uint64

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
	if o.firstRetry == 0 {
		o.firstRetry = 100 * time.Millisecond
	}
	return o
}

// Open opens the journal of a directory. It returns [journal.ErrLocked] where
// the directory is open already, and a [journal.DamagedError] where what is there
// cannot be what was written.
func Open(opts Options) (*Journal, error) {
	j, err := lockDirectory(opts)
	if err == nil {
		if j.life.store, err = j.openStore(); err == nil {
			j.compacted.Store(int64(j.life.store.marks.compacted))
			return j, nil
		}
		j.unlock()
	}
	return nil, fmt.Errorf("open journal in %s: %w", opts.Dir, err)
}

// lockDirectory makes a Journal that has its directory, and has not opened it.
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
			return j, nil // nobody can write where no lock file can be made
		}
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("%w: stop whoever has the directory open, or take another (%v)", journal.ErrLocked, err)
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

// prepare makes the directory and returns its one name and the files in it.
func prepare(opts Options) (string, vfs.FS, error) {
	if opts.Dir == "" {
		return "", nil, errors.New("no directory given")
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
			// Names of directories that have just been made must outlive a power cut, too.
			for parent := range 2 {
				_ = syncDir(files, filepath.Join(dir, strings.Repeat("../", parent+1))) // it may not be ours to open
			}
		}
		// A lock is held by name: two names of one directory must not look like two.
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

// settings are for a store that is written more than it is read, next to a
// server whose memory it must not show in.
func (j *Journal) settings(s *store) *pebble.Options {
	set := &pebble.Options{
		FS:                 s.disk,
		ReadOnly:           s.readOnly,
		Logger:             logger{j.opts.Logger, s.disk},
		EventListener:      listener(j.opts.Logger, s.disk),
		FormatMajorVersion: pebble.FormatTableFormatV6,
		CacheSize:          j.opts.CacheBytes,
		MemTableSize:       j.opts.MemTableBytes,
		// A burst may fill some tables before it has to wait for the first.
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
	return j.sequencer.Append(ctx, b)
}

// Sync implements [journal.Journal].
func (j *Journal) Sync(ctx context.Context) (shared bool, err error) { return j.sequencer.Sync(ctx) }

// Head implements [journal.Journal].
func (j *Journal) Head() (object.Revision, int64) { return j.sequencer.Head() }

// Health implements [journal.Journal].
func (j *Journal) Health() error { return j.sequencer.Health() }

// Close implements [journal.Journal]. Where the files have failed, it returns that
// error.
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
	j.revival.Wait() // it ends with ctx, and begins only where closed is not set
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

// use returns the store that is open, and keeps it open until release is called.
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

var _ journal.Journal = (*Journal)(nil)
