// Package etcd is the journal for several replicas: each is a process of its own, and they share an
// etcd of version 3.5.13 or newer.
//
// # Layout
//
// Each key in etcd belongs to one object, and its value is the object's canonical JSON, encrypted
// by the [journal.Sealer] if there is one. kube-apiserver uses and can read the same layout.
//
//	<prefix>/pods/default/web           an object; see object.Key.Path
//	<prefix>/kapok/compacted            the mark: history up to this revision is not
//	                                    read any more
//	<prefix>/kapok/<name>               a secret that the replicas share
//
// Other keys under the prefix are ignored. Values written by kube-apiserver are converted to the
// canonical form when they are read: JSON in any format, and the protobuf of its built-in kinds
// (see [Options].Decode). Neither the fingerprint of the schema nor the time of a write is stored:
// on the replica that wrote an object both are known; on the others the object has no fingerprint,
// and its time is when the replica received it.
//
// # How the contract maps
//
//	revision               etcd's, of the whole of etcd: many are not of this journal
//	batch                  one transaction: all its entries have one revision
//	precondition, guard    a comparison of a key's ModRevision
//	Apply                  the watch: every replica applies what etcd has committed, in
//	                       its order, its own writes like all others
//	Append returns         when the watch has delivered the revision of its transaction,
//	                       or when it has applied it itself because it is the next revision
//	Sync                   a linearizable read, for its revision alone; calls that arrive
//	                       during a read share the next one. If no event delivers that
//	                       revision, a progress notification is requested
//	Recover                a list in pages at one revision; the watch starts behind it
//	History                a watch from an older revision, with the previous values
//	Compact                writes the mark, so that all replicas agree, then compacts etcd
//
// # Losing etcd
//
// The journal is linked to one member at a time: the first that answers a linearizable read. It
// probes the link with such reads and drops it when one fails; then it asks all members
// concurrently until one answers. For a while Append and Sync wait for a link, since the members
// may be electing a leader; after that the journal is down, and they fail at once until a member
// answers. The watch resumes behind the last applied revision; if etcd has compacted that revision,
// the journal lists everything again and rebases the sink on the differences.
//
// A transaction is sent once. It is sent again only if etcd has certainly not applied it: nothing
// was sent, or etcd returned that it rejected it. Every other failure is [journal.ErrUnknown].
//
// A cluster whose revisions go back, or that has another cluster ID, does not hold the data that
// the sink is the fold of: the journal is down until the server is restarted.
//
// # Values that cannot be read
//
// The journal logs an error that names the key and notifies the sink, and Append to the key fails
// with a DamagedError until a readable value or a deletion arrives. The sink keeps the previous
// value of the key if it has one (it would act on a deletion). Only a value for which the
// encryption key is missing makes Recover fail.
//
// # Goroutines and locks
//
// The Journal owns one goroutine that maintains the link (keep), one that follows the watch and
// feeds the sink (follow) with one more while a stream is open, and one while calls of Sync wait.
// Close stops them all. The goroutine that feeds the sink holds one lock; other locks are taken
// under it, and under no other.
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
	position position     // how far the sink has advanced
	pending  pending      // what Append has sent and the watch has not delivered
	reads    reads        // of Sync
	rebases  atomic.Int64 // number of rebases of the sink

	follower *follower          // set by Recover
	stop     context.CancelFunc // stops the goroutines
	ctx      context.Context    // of the goroutines
	hurry    context.CancelFunc // cancels calls that only read
	closing  context.Context    // of these
	running  sync.WaitGroup
	calls    sync.RWMutex // read-held by calls under way

	compacting sync.Mutex // held by Compact

	mu struct {
		sync.Mutex
		head      object.Revision // of the newest entry, or of recovery
		bytes     int64
		compacted object.Revision
		mark      int64                          // ModRevision of the mark
		damaged   map[object.Key]object.Revision // keys whose value cannot be read
		deaf      error                          // why no watch can be opened; nil otherwise
		full      bool                           // etcd reported that it has no space
		closed    bool
	}
}

var _ journal.Journal = (*Journal)(nil)

// Open opens the journal. It returns when a member of etcd answers, or an error after
// Options.DialTimeout.
func Open(ctx context.Context, opts Options) (*Journal, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("open journal on etcd: %w", err)
	}
	j := &Journal{opts: opts, log: opts.Logger}
	j.values = values{prefix: opts.Prefix, paths: opts.Paths, sealer: opts.Sealer, decode: opts.Decode}
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
	list, err := j.list(ctx, j.opts.Progress)
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
			return d.err // most likely the encryption keys are wrong; the data is readable with the right ones
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

// KeepsHistory implements [journal.Journal].
func (j *Journal) KeepsHistory() bool { return true }

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

// unavailable returns an ErrUnavailable with the text of its cause. The cause is not wrapped: a
// deadline of a request to etcd is not the caller's deadline.
func unavailable(cause error) error {
	return fmt.Errorf("%w: %v", journal.ErrUnavailable, brief(cause))
}

// errUnreachable is the error for clients. The log has the errors of the members.
var errUnreachable = errors.New("etcd cannot be reached, or has no leader")

// noAnswer returns the error, as clients may see it, of a call that found no link in time.
func noAnswer(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return errUnreachable
	}
	return err
}

// brief returns an error as clients may see it: without addresses, and on one line.
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

// failed returns the error of a read-only call that was given up.
func (j *Journal) failed(cause error) error {
	if j.closing.Err() != nil {
		return journal.ErrClosed
	}
	return unavailable(cause)
}

// bounded returns a context for a read-only call: it ends after limit, and when the journal is
// being closed.
func (j *Journal) bounded(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	leave := context.AfterFunc(j.closing, cancel)
	return ctx, func() { leave(); cancel() }
}

// use delays Close until release is called.
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
	j.calls.Lock() // waits for running calls
	defer j.calls.Unlock()
	j.stop()
	j.running.Wait()
	return nil
}
