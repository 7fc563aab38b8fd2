package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/object"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// sketch is a journal on etcd. It owns one goroutine, which follows the watch.
type sketch struct {
	client *clientv3.Client
	sink   journal.Sink
	stop   context.CancelFunc
	calls  sync.RWMutex // read-held by calls under way
	follow sync.WaitGroup

	streams atomic.Int64 // watches for History so far

	mu struct {
		sync.Mutex
		head      object.Revision // of the newest entry, or of recovery
		applied   object.Revision // everything up to it is in the sink
		bytes     int64
		compacted object.Revision
		mark      int64 // ModRevision of the key that says so
		failed    error
		closed    bool
		changed   chan struct{} // closed at each change of the above
	}
}

// Recover lists everything at one revision, and follows from there.
func (j *sketch) Recover(ctx context.Context, sink journal.Sink) error {
	list, err := j.client.Get(ctx, all, clientv3.WithPrefix())
	if err != nil {
		return err
	}
	slices.SortFunc(list.Kvs, func(a, b *mvccpb.KeyValue) int { return cmp.Compare(a.ModRevision, b.ModRevision) })
	head := object.Revision(list.Header.Revision)
	for _, kv := range list.Kvs {
		if string(kv.Key) == markKey {
			if err := j.setMark(kv); err != nil {
				return err
			}
			continue
		}
		o, err := decode(kv)
		if err != nil {
			return err
		}
		sink.Restore(journal.Entry{Key: o.Key, Revision: o.Revision, Object: o})
	}
	sink.Restored(head, head)
	j.sink, j.mu.head, j.mu.applied = sink, head, head

	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	j.stop = stop
	events := j.client.Watch(watching, all, clientv3.WithPrefix(), clientv3.WithRev(int64(head)+1))
	j.follow.Go(func() { j.run(events) })
	return nil
}

// run applies what etcd commits. A response never splits a revision.
func (j *sketch) run(responses clientv3.WatchChan) {
	for response := range responses {
		err := response.Err()
		if err == nil {
			err = j.apply(response.Events)
		}
		if err != nil {
			j.fail(err)
			return
		}
	}
	j.fail(errors.New("the watch has ended"))
}

func (j *sketch) apply(events []*clientv3.Event) error {
	for len(events) > 0 {
		revision := events[0].Kv.ModRevision
		n := slices.IndexFunc(events, func(e *clientv3.Event) bool { return e.Kv.ModRevision != revision })
		if n < 0 {
			n = len(events)
		}
		var entries []journal.Entry
		for _, event := range events[:n] {
			if string(event.Kv.Key) == markKey {
				if err := j.setMark(event.Kv); err != nil {
					return err
				}
				continue
			}
			e, err := entryOf(event)
			if err != nil {
				return err
			}
			e.Prev = j.sink.Revision(e.Key) // the sink is right before this revision
			entries = append(entries, e)
		}
		if len(entries) > 0 {
			j.sink.Apply(entries)
		}
		j.applied(object.Revision(revision), entries)
		events = events[n:]
	}
	return nil
}

func entryOf(event *clientv3.Event) (journal.Entry, error) {
	key, err := keyOf(string(event.Kv.Key))
	if err != nil {
		return journal.Entry{}, err
	}
	e := journal.Entry{Key: key, Revision: object.Revision(event.Kv.ModRevision)}
	if event.Type == clientv3.EventTypePut {
		e.Object, err = decode(event.Kv)
	}
	return e, err
}

func (j *sketch) applied(revision object.Revision, entries []journal.Entry) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.mu.applied = revision
	for i := range entries {
		j.mu.head = revision
		j.mu.bytes += int64(entries[i].Size())
	}
	j.wakeLocked()
}

func (j *sketch) setMark(kv *mvccpb.KeyValue) error {
	compacted, err := strconv.ParseInt(string(kv.Value), 10, 64)
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.mu.compacted = max(j.mu.compacted, object.Revision(compacted))
	j.mu.mark = kv.ModRevision
	return nil
}

// Health implements [journal.Journal].
func (j *sketch) Health() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.mu.failed != nil {
		return fmt.Errorf("%w: %w", journal.ErrUnavailable, j.mu.failed)
	}
	return nil
}

func (j *sketch) fail(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.mu.failed = err
	j.wakeLocked()
}

func (j *sketch) wakeLocked() {
	close(j.mu.changed)
	j.mu.changed = make(chan struct{})
}

// wait returns once done does, which is called with the lock held.
func (j *sketch) wait(done func() bool) error {
	for {
		j.mu.Lock()
		ok, failed, changed := done(), j.mu.failed, j.mu.changed
		j.mu.Unlock()
		if ok {
			return nil
		}
		if failed != nil {
			return failed
		}
		<-changed
	}
}

// begin holds Close up until end is called.
func (j *sketch) begin() (end func(), err error) {
	j.calls.RLock()
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.mu.closed {
		j.calls.RUnlock()
		return nil, journal.ErrClosed
	}
	return j.calls.RUnlock, nil
}

func (j *sketch) Close() error {
	j.mu.Lock()
	closed := j.mu.closed
	j.mu.closed = true
	j.mu.Unlock()
	if closed {
		return nil
	}
	j.calls.Lock() // waits for the calls under way
	defer j.calls.Unlock()
	if j.stop != nil {
		j.stop()
	}
	j.follow.Wait()
	if err := j.client.Close(); !errors.Is(err, context.Canceled) { // as every client in one process with its server says
		return err
	}
	return nil
}

var _ journal.Journal = (*sketch)(nil)
