// Package etcd is the journal of many replicas: each is a process of its own, and
// what they share is an etcd, version 3.5.13 or newer.
//
// # Layout
//
// A key of etcd is an object's, its value the object's canonical JSON, through the
// [journal.Sealer] if there is one: what kube-apiserver keeps, and reads.
//
//	<prefix>/pods/default/web           an object; see object.Key.Path
//	<prefix>/kapok/compacted            the mark: history up to this revision is not
//	                                    read any more
//	<prefix>/kapok/<name>               a secret that the replicas share
//
// What else there is under the prefix is left alone, and not looked at. Values
// that kube-apiserver wrote are brought to the canonical form when they are read:
// JSON as it may be, and the protobuf of its built-in kinds (see DecodeProtobuf).
// The fingerprint of the schema is not stored, nor when an object was written: an
// object has its own on the replica that wrote it, and elsewhere no fingerprint
// and the time at which the replica learned of it.
//
// # How the contract maps
//
//	revision               etcd's, of the whole of etcd: many are not of this journal
//	batch                  one transaction: all its entries have one revision
//	precondition, guard    a comparison of a key's ModRevision
//	Apply                  the watch: every replica applies what etcd has committed, in
//	                       its order, its own writes like all others
//	Append returns         when the watch has brought the revision of its transaction, or
//	                       when it has applied it itself: if that is the next revision
//	Sync                   a linearizable read, for its revision alone; who comes while
//	                       one is under way shares the next. The watch is asked for its
//	                       progress where no event brings that revision
//	Recover                a list in pages at one revision; the watch goes on from there
//	History                a watch from an older revision, with the previous values
//	Compact                writes the mark, so that all replicas agree, then compacts etcd
//
// # Losing etcd
//
// The journal is linked to one member at a time: to the one that first answers a
// linearizable read. A link is probed with such reads and given up when one fails;
// all members are then asked at once, again and again. For a while Append and Sync
// wait for an answer, as there may be an election; then the journal is down, and
// they fail at once, until a member answers. The watch resumes behind the last
// revision that was applied; where etcd has compacted that, everything is listed
// anew, and the sink is rebased on the differences.
//
// A transaction is sent once. It is sent again only where it is certain that etcd
// has not taken it: nothing was sent, or etcd says that it refused. Everything else
// is [journal.ErrUnknown].
//
// A cluster whose revisions go back, or that has another identity, is not the one
// that the sink is the fold of: the journal is down until the server is restarted.
//
// # Values that cannot be read
//
// An error is logged that names the key, the sink is told, and Append to the key
// fails with a DamagedError, until a readable value or a deletion comes. The sink
// keeps what the key held before, if it knows that (a deletion would be acted upon).
// Only what no key opens keeps Recover from going on.
//
// # Goroutines and locks
//
// The Journal owns one goroutine that keeps the link (keep), one that follows the
// watch and feeds the sink (follow) with one more while a stream is open, and one
// while there are callers of Sync. Close ends them all. One lock is held by whoever
// feeds the sink; others are taken under it, and under no other.
package etcd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/object"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/status"
)

// Journal implements [journal.Journal] on etcd.
type Journal struct {
	opts   Options
	values values
	log    *slog.Logger

	links    links
	position position     // how far the sink has come
	pending  pending      // what Append has sent
	reads    reads        // of Sync
	rebases  atomic.Int64 // how often the sink was rebased

	follower *follower          // set by Recover
	stop     context.CancelFunc // ends the goroutines
	ctx      context.Context    // of the goroutines
	hurry    context.CancelFunc // ends calls that only read
	closing  context.Context    // of these
	running  sync.WaitGroup
	calls    sync.RWMutex // read-held by calls under way

	compacting sync.Mutex // one Compact at a time

	mu struct {
		sync.Mutex
		head      object.Revision // of the newest entry, or of recovery
		bytes     int64
		compacted object.Revision
		mark      int64                          // ModRevision of the key that says so
		damaged   map[object.Key]object.Revision // what could not be read
		deaf      error                          // why there is no watch, if it could not be had
		full      bool                           // etcd said that there is no space
		closed    bool
	}
}

var _ journal.Journal = (*Journal)(nil)

// Open opens the journal on an etcd, once a member of it answers.
func Open(ctx context.Context, opts Options) (*Journal, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("open journal on etcd: %w", err)
	}
	j := &Journal{opts: opts, log: opts.Logger}
	j.values = values{prefix: opts.Prefix, sealer: opts.Sealer, decode: opts.Decode}
	j.mu.damaged = map[object.Key]object.Revision{}
	j.pending.init()
	j.links.init()
	j.position.init()
	j.ctx, j.stop = context.WithCancel(context.WithoutCancel(ctx))
	j.closing, j.hurry = context.WithCancel(j.ctx)
	j.running.Go(func() { j.keep(j.ctx) })

	ctx, cancel := context.WithTimeout(ctx, opts.DialTimeout)
	defer cancel()
	if err := j.links.first(ctx); err != nil {
		j.Close()
		return nil, fmt.Errorf("open journal on etcd at %s: %w", strings.Join(opts.Endpoints, ", "), err)
	}
	return j, nil
}

// Recover implements [journal.Journal].
func (j *Journal) Recover(ctx context.Context, sink journal.Sink) error {
	release, err := j.use()
	if err != nil {
		return err
	}
	defer release()
	list, err := j.list(ctx)
	if err == nil {
		err = j.findCompacted(ctx)
	}
	if err != nil {
		return fmt.Errorf("read back the journal under %s: %w", j.opts.Prefix, err)
	}
	f := &follower{Journal: j, sink: sink, live: make(map[object.Key]object.Revision, len(list.entries)), at: list.head}
	for i := range list.entries {
		e := &list.entries[i]
		f.live[e.Key] = e.Revision
		sink.Restore(*e)
	}
	for _, d := range list.damaged {
		if errors.Is(d.err, journal.ErrUnopened) {
			return d.err // the keys are wrong, most likely: all is well once they are right
		}
		f.unreadable(d.key, d.revision, d.err)
	}
	sink.Restored(list.head, list.head)
	j.follower = f
	j.mu.Lock()
	j.mu.head = list.head
	j.mu.Unlock()
	j.position.advance(list.head)
	j.running.Go(func() { f.follow(j.ctx) })
	return nil
}

// Head implements [journal.Journal].
func (j *Journal) Head() (object.Revision, int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.mu.head, j.mu.bytes
}

// Compacted implements [journal.Journal].
func (j *Journal) Compacted() object.Revision {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.mu.compacted
}

// Health implements [journal.Journal].
func (j *Journal) Health() error {
	j.mu.Lock()
	closed, deaf, full := j.mu.closed, j.mu.deaf, j.mu.full
	j.mu.Unlock()
	switch err := j.links.err(); {
	case closed:
		return journal.ErrClosed
	case err != nil:
		return unavailable(err)
	case deaf != nil:
		return unavailable(deaf)
	case full:
		return fmt.Errorf("%w in etcd", journal.ErrFull)
	}
	return nil
}

// unavailable is ErrUnavailable with its cause. The cause is told and not wrapped:
// a deadline of a request to etcd is not the caller's.
func unavailable(cause error) error {
	return fmt.Errorf("%w: %v", journal.ErrUnavailable, brief(cause))
}

// errUnreachable is what clients are told. Which member said what is in the log.
var errUnreachable = errors.New("etcd cannot be reached, or has no leader")

// brief is an error as clients may see it: without addresses, and on one line.
func brief(cause error) error {
	var known rpctypes.EtcdError
	if errors.As(rpctypes.Error(cause), &known) {
		return known
	}
	if _, isRPC := status.FromError(cause); isRPC && cause != nil {
		return errUnreachable
	}
	return cause
}

// failed is the error of a call that only reads, and has been given up.
func (j *Journal) failed(cause error) error {
	if j.closing.Err() != nil {
		return journal.ErrClosed
	}
	return unavailable(cause)
}

// bounded returns a context for a call that only reads: it ends when its time has
// passed, and when the journal is being closed.
func (j *Journal) bounded(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	leave := context.AfterFunc(j.closing, cancel)
	return ctx, func() { leave(); cancel() }
}

// use holds Close up until release is called.
func (j *Journal) use() (release func(), err error) {
	j.calls.RLock()
	j.mu.Lock()
	closed := j.mu.closed
	j.mu.Unlock()
	if closed {
		j.calls.RUnlock()
		return nil, journal.ErrClosed
	}
	return j.calls.RUnlock, nil
}

// Close implements [journal.Journal].
func (j *Journal) Close() error {
	j.mu.Lock()
	closed := j.mu.closed
	j.mu.closed = true
	j.mu.Unlock()
	if closed {
		return nil
	}
	j.hurry()
	j.calls.Lock() // waits for the calls under way
	defer j.calls.Unlock()
	j.stop()
	j.running.Wait()
	return nil
}
