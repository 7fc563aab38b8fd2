package etcd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/object"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// follower feeds the sink with what etcd commits.
type follower struct {
	*Journal
	sink journal.Sink

	// feeding is held by whoever feeds the sink, and guards what follows.
	feeding sync.Mutex
	at      object.Revision                // the sink holds everything up to it
	live    map[object.Key]object.Revision // what the sink holds
	cleared []object.Key                   // can be read, or are gone; of one call
}

// follow opens the watch, again and again, until the journal is closed.
func (f *follower) follow(ctx context.Context) {
	var pause pause
	for {
		l, err := f.links.get(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			before, opened := f.position.now(), time.Now()
			err = f.stream(ctx, l)
			if ctx.Err() != nil {
				return
			}
			if compacted := (*compactedError)(nil); errors.As(err, &compacted) {
				f.setCompacted(compacted.revision)
				if f.position.now() < compacted.revision {
					err = f.rebase(ctx)
				} else { // own writes have brought the sink beyond that
					err = nil
				}
				if err == nil {
					continue
				}
			}
			l.suspect()
			at := f.position.now()
			if at > before || time.Since(opened) > retryMax {
				pause.reset()
			} else if pause.next > 0 { // for the second time
				f.setDeaf(err)
			}
			f.log.Warn("watch of etcd lost", "endpoint", l.endpoint, "revision", at, "error", err)
		}
		pause.wait(ctx)
	}
}

func (j *Journal) setDeaf(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.mu.deaf = err
}

// apply hands events to the sink: whole revisions, in their order. What it has
// already is passed over.
func (f *follower) apply(events []*mvccpb.Event) error {
	f.feeding.Lock()
	defer f.feeding.Unlock()
	entries := make([]journal.Entry, 0, len(events))
	from := f.at
	var size int64
	var disorder error
	for _, event := range events {
		revision := object.Revision(event.Kv.ModRevision)
		if revision <= from {
			continue
		}
		if revision < f.at {
			disorder = fmt.Errorf("etcd's watch brings revision %d after %d", revision, f.at)
			break
		}
		f.at = revision
		if string(event.Kv.Key) == string(f.values.markKey()) {
			if event.Type == mvccpb.Event_DELETE {
				f.setMark(0, nil)
			} else {
				f.setMark(event.Kv.ModRevision, event.Kv.Value)
			}
			continue
		}
		key, ok := f.values.key(event.Kv.Key)
		if !ok {
			continue
		}
		if e, ok := f.entry(key, event); ok {
			entries = append(entries, e)
			size += int64(e.Size())
		}
	}
	if len(entries) > 0 {
		f.sink.Apply(entries)
		f.applied(entries[len(entries)-1].Revision, size)
	}
	f.clear()
	f.position.advance(f.at)
	return disorder
}

// reach says that there is nothing up to a revision that the sink does not hold.
func (f *follower) reach(revision object.Revision) {
	f.feeding.Lock()
	defer f.feeding.Unlock()
	f.at = max(f.at, revision)
	f.position.advance(f.at)
}

// own hands a batch of this replica to the sink, without waiting for the watch, if
// it is what comes next: etcd numbers its transactions one by one, so there is
// nothing between two revisions that follow each other.
func (f *follower) own(revision object.Revision, entries []journal.Entry, puts []*put) bool {
	f.feeding.Lock()
	defer f.feeding.Unlock()
	if revision != f.at+1 {
		return false
	}
	for i := range entries {
		if f.live[entries[i].Key] != entries[i].Prev {
			return false
		}
	}
	if !f.pending.take(puts, revision) {
		return false
	}
	entries = slices.Clone(entries)
	var size int64
	for i := range entries {
		e := &entries[i]
		e.Revision = revision
		if f.live[e.Key] = revision; e.Object == nil {
			delete(f.live, e.Key)
		}
		size += int64(e.Size())
	}
	f.sink.Apply(entries)
	f.at = revision
	f.applied(revision, size)
	f.position.advance(revision)
	return true
}

// entry returns what an event does to the sink; false if that is nothing.
func (f *follower) entry(key object.Key, event *mvccpb.Event) (journal.Entry, bool) {
	e := journal.Entry{Key: key, Prev: f.live[key], Revision: object.Revision(event.Kv.ModRevision)}
	if event.Type == mvccpb.Event_DELETE {
		f.cleared = append(f.cleared, key)
		delete(f.live, key)
		return e, e.Prev > 0
	}
	o, ok := f.pending.claim(key, event.Kv)
	if !ok {
		var err error
		if o, err = f.values.object(key, event.Kv); err != nil {
			f.unreadable(key, e.Revision, err)
			return e, false
		}
	}
	f.cleared = append(f.cleared, key)
	f.live[key], e.Object = e.Revision, o
	return e, true
}

// unreadable is told of a value that cannot be read. What the key held before stays.
func (f *follower) unreadable(key object.Key, revision object.Revision, err error) {
	f.log.Error("an object in etcd cannot be read", "key", key, "error", err)
	f.cleared = slices.DeleteFunc(f.cleared, func(other object.Key) bool { return other == key })
	f.setDamaged(key, revision)
	f.sink.Unreadable(key, err)
}

// clear says of the keys that can be read, or are gone, that this is so: when the
// sink holds what they are.
func (f *follower) clear() {
	for _, key := range f.cleared {
		if f.setDamaged(key, 0) {
			f.sink.Unreadable(key, nil)
		}
	}
	f.cleared = f.cleared[:0]
}

// setDamaged says at which revision a key cannot be read; zero if it can. It returns
// whether it could not be read before.
func (j *Journal) setDamaged(key object.Key, revision object.Revision) (was bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	was = j.mu.damaged[key] > 0
	if revision > 0 {
		j.mu.damaged[key] = revision
	} else {
		delete(j.mu.damaged, key)
	}
	return was
}

// readAgainOften is readAgain, now and then.
func (f *follower) readAgainOften(ctx context.Context) {
	ticker := time.NewTicker(2 * f.opts.RequestTimeout)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			f.readAgain(ctx)
		case <-ctx.Done():
			return
		}
	}
}

func (j *Journal) damagedKeys() []object.Key {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Collect(maps.Keys(j.mu.damaged))
}

// readAgain looks whether values can be read by now that could not be, for want of
// a key most likely.
func (f *follower) readAgain(ctx context.Context) {
	f.mu.Lock()
	damaged := maps.Clone(f.mu.damaged)
	f.mu.Unlock()
	for key, revision := range damaged {
		there, err := f.read(ctx, &pb.RangeRequest{Key: f.values.path(key)})
		if err != nil {
			return
		}
		if len(there.Kvs) == 0 || object.Revision(there.Kvs[0].ModRevision) != revision {
			continue // the watch brings what it is now
		}
		if o, err := f.values.object(key, there.Kvs[0]); err == nil {
			f.takeIn(o)
		}
	}
}

// takeIn gives the sink an object that could not be read when it came.
func (f *follower) takeIn(o *object.Object) {
	f.feeding.Lock()
	defer f.feeding.Unlock()
	f.mu.Lock()
	still := f.mu.damaged[o.Key] == o.Revision
	f.mu.Unlock()
	if !still {
		return
	}
	f.log.Info("an object in etcd can be read again", "key", o.Key)
	f.sink.Rebase([]journal.Entry{{Key: o.Key, Prev: f.live[o.Key], Revision: o.Revision, Object: o}}, max(f.sinkHead(), o.Revision))
	f.live[o.Key] = o.Revision
	f.cleared = append(f.cleared, o.Key)
	f.clear()
}

// sinkHead is the newest revision of the sink.
func (j *Journal) sinkHead() object.Revision {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.mu.head
}

func (j *Journal) applied(head object.Revision, size int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.mu.head = head
	j.mu.bytes += size
}

// compactedError says that the watch cannot be had any more from where it is
// needed.
type compactedError struct{ revision object.Revision }

func (e *compactedError) Error() string {
	return fmt.Sprintf("etcd has been compacted up to revision %d", e.revision)
}

// rebase brings the sink to what there is now, by what differs.
func (f *follower) rebase(ctx context.Context) error {
	list, err := f.list(ctx)
	if err != nil {
		return err
	}
	f.feeding.Lock()
	defer f.feeding.Unlock()
	if list.head <= f.at {
		return nil // own writes have brought the sink there in the meantime
	}
	changes, size := f.differences(&list)
	f.log.Warn("etcd was compacted before it was followed; listed it anew",
		"compacted", f.Compacted(), "from", f.at, "to", list.head, "changes", len(changes))
	f.rebases.Add(1)
	f.sink.Rebase(changes, list.head)
	f.clear()
	f.at = list.head
	f.applied(f.at, size)
	f.position.advance(f.at)
	return nil
}

// differences are what brings the sink to a listing.
func (f *follower) differences(list *listing) (changes []journal.Entry, size int64) {
	f.cleared = append(f.cleared, f.damagedKeys()...) // but for those that are found so again
	there := make(map[object.Key]bool, len(list.entries))
	for _, d := range list.damaged {
		there[d.key] = true
		f.unreadable(d.key, d.revision, d.err)
	}
	for i := range list.entries {
		e := &list.entries[i]
		there[e.Key] = true
		if was := f.live[e.Key]; was != e.Revision {
			e.Prev = was
			changes = append(changes, *e)
			f.live[e.Key] = e.Revision
		}
	}
	for key, was := range f.live {
		if !there[key] {
			changes = append(changes, journal.Entry{Key: key, Prev: was, Revision: list.head})
			delete(f.live, key)
		}
	}
	for i := range changes {
		size += int64(changes[i].Size())
	}
	return slices.Clip(changes), size
}
