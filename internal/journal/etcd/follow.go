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

	// feeding is held while the sink is fed, and guards the fields below.
	feeding sync.Mutex
	at      object.Revision                // the sink includes everything up to it
	live    map[object.Key]object.Revision // contents of the sink
	cleared []object.Key                   // keys that became readable or were deleted in the current call
}

// follow runs the watch, and opens it again after it has ended, until the journal is closed.
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
				} else { // own writes have advanced the sink beyond that revision
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
			} else if pause.next > 0 { // second failure in a row
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

// apply applies events to the sink: whole revisions, in order. It skips events that the sink
// already includes.
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
			disorder = fmt.Errorf("etcd's watch delivered revision %d after %d", revision, f.at)
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

// reach records that the sink includes everything up to a revision.
func (f *follower) reach(revision object.Revision) {
	f.feeding.Lock()
	defer f.feeding.Unlock()
	f.at = max(f.at, revision)
	f.position.advance(f.at)
}

// own applies a batch of this replica to the sink without waiting for the watch, provided that its
// revision is the next one: etcd numbers transactions consecutively, so no other commit lies
// between two consecutive revisions.
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

// entry returns the change that an event makes to the sink, or false if there is none.
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

// unreadable records that a value cannot be read. The sink keeps the previous value.
func (f *follower) unreadable(key object.Key, revision object.Revision, err error) {
	f.log.Error("cannot read an object in etcd", "key", key, "error", err)
	f.cleared = slices.DeleteFunc(f.cleared, func(other object.Key) bool { return other == key })
	f.setDamaged(key, revision)
	f.sink.Unreadable(key, err)
}

// clear notifies the sink of keys that are readable again or deleted. It is called once the sink
// holds their new content.
func (f *follower) clear() {
	for _, key := range f.cleared {
		if f.setDamaged(key, 0) {
			f.sink.Unreadable(key, nil)
		}
	}
	f.cleared = f.cleared[:0]
}

// setDamaged sets the revision at which a key cannot be read; zero if it can. It reports whether
// the key was unreadable before.
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

// readAgainOften calls readAgain at intervals.
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

// readAgain retries values that could not be read, most likely because an encryption key was
// missing.
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
			continue // the watch will deliver the current value
		}
		if o, err := f.values.object(key, there.Kvs[0]); err == nil {
			f.takeIn(o)
		}
	}
}

// takeIn applies an object to the sink that was unreadable when the watch delivered it.
func (f *follower) takeIn(o *object.Object) {
	f.feeding.Lock()
	defer f.feeding.Unlock()
	f.mu.Lock()
	still := f.mu.damaged[o.Key] == o.Revision
	f.mu.Unlock()
	if !still {
		return
	}
	f.log.Info("an object in etcd is readable again", "key", o.Key)
	f.sink.Rebase([]journal.Entry{{Key: o.Key, Prev: f.live[o.Key], Revision: o.Revision, Object: o}}, max(f.sinkHead(), o.Revision))
	f.live[o.Key] = o.Revision
	f.cleared = append(f.cleared, o.Key)
	f.clear()
}

// sinkHead returns the newest revision of the sink.
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

// compactedError reports that the watch cannot resume because etcd has compacted the revisions it
// needs.
type compactedError struct{ revision object.Revision }

func (e *compactedError) Error() string {
	return fmt.Sprintf("etcd has been compacted up to revision %d", e.revision)
}

// rebase lists etcd and applies the differences to the sink.
func (f *follower) rebase(ctx context.Context) error {
	list, err := f.list(ctx, unreported)
	if err != nil {
		return err
	}
	f.feeding.Lock()
	defer f.feeding.Unlock()
	if list.head <= f.at {
		return nil // own writes have advanced the sink in the meantime
	}
	changes, size := f.differences(&list)
	f.log.Warn("etcd compacted revisions that this replica had not received: listed all keys again",
		"compacted", f.Compacted(), "from", f.at, "to", list.head, "changes", len(changes))
	f.rebases.Add(1)
	f.sink.Rebase(changes, list.head)
	f.clear()
	f.at = list.head
	f.applied(f.at, size)
	f.position.advance(f.at)
	return nil
}

// differences returns the changes from the contents of the sink to a listing.
func (f *follower) differences(list *listing) (changes []journal.Entry, size int64) {
	f.cleared = append(f.cleared, f.damagedKeys()...) // except those that the listing cannot read either
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
