package pebble

import (
	"context"
	"fmt"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/object"

	"github.com/cockroachdb/pebble/v2"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Compacted implements [journal.Journal].
func (j *Journal) Compacted() object.Revision { return object.Revision(j.compacted.Load()) }

// History implements [journal.Journal].
func (j *Journal) History(ctx context.Context, resource schema.GroupResource, after, upTo object.Revision, limit int) (records []journal.Record, err error) {
	err = j.history(resource, after, func(h *history) error {
		records, err = h.read(ctx, after, upTo, limit)
		return err
	})
	return records, err
}

// Undo implements [journal.Undoer]. It decodes only the records that it passes on.
func (j *Journal) Undo(ctx context.Context, resource schema.GroupResource, after, upTo object.Revision, put func(object.Key, *object.Object)) error {
	return j.history(resource, after, func(h *history) error { return h.undo(ctx, after, upTo, put) })
}

// history reads the history of a resource after a revision.
func (j *Journal) history(resource schema.GroupResource, after object.Revision, read func(*history) error) error {
	s, snapshot, release, err := j.snapshot()
	if err != nil {
		return err
	}
	defer release()
	// Compact moves the mark before it removes records: everything behind the mark as read here is
	// in the snapshot taken before.
	if after < j.Compacted() {
		return journal.ErrCompacted
	}
	h := history{snapshot: snapshot, resource: resource, decode: decoder{sealer: j.opts.Sealer}, seen: map[object.Revision]*object.Object{}}
	err = read(&h)
	if failed := s.disk.err(); failed != nil {
		// An attempt to reopen the files may overwrite data that this store has not read yet: what
		// it reads from then on is not reliable.
		return j.refusal(failed)
	}
	if err != nil {
		return fmt.Errorf("read the history of %s in %s: %w", resource, j.dir, judge(j.dir, "the history", err))
	}
	return nil
}

// history reads the records of one resource.
type history struct {
	snapshot *pebble.Snapshot
	resource schema.GroupResource
	decode   decoder
	seen     map[object.Revision]*object.Object // read already
}

func (h *history) read(ctx context.Context, after, upTo object.Revision, limit int) (records []journal.Record, err error) {
	err = h.each(ctx, after, upTo, func(r *record) (bool, error) {
		entry, err := h.decode.entry(r.own())
		if err != nil {
			return false, err
		}
		replaced, err := h.object(entry.Prev)
		if err != nil {
			return false, err
		}
		delete(h.seen, entry.Prev) // nothing else can replace it
		if entry.Object != nil {
			h.seen[r.revision] = entry.Object
		}
		records = append(records, journal.Record{Entry: entry, Replaced: replaced})
		return limit <= 0 || len(records) < limit, nil
	})
	if err != nil {
		return nil, err
	}
	return records, nil
}

func (h *history) undo(ctx context.Context, after, upTo object.Revision, put func(object.Key, *object.Object)) error {
	undone := map[string]struct{}{}
	var name []byte
	return h.each(ctx, after, upTo, func(r *record) (bool, error) {
		name = append(append(append(name[:0], r.namespace...), 0), r.name...)
		if _, ok := undone[string(name)]; ok {
			return true, nil
		}
		undone[string(name)] = struct{}{}
		key := r.key()
		was, err := h.object(r.previous)
		if err == nil {
			put(key, was)
		}
		return true, err
	})
}

// each calls f with the records of revisions in (after, upTo], oldest first, until it returns
// false. A record is valid only during the call.
func (h *history) each(ctx context.Context, after, upTo object.Revision, f func(*record) (bool, error)) (err error) {
	defer recoverDamage(&err)
	if upTo <= after {
		return nil
	}
	iter, err := h.snapshot.NewIterWithContext(ctx, &pebble.IterOptions{
		LowerBound: appendRecordKey(nil, h.resource, after+1),
		UpperBound: appendRecordKey(nil, h.resource, upTo+1),
	})
	if err != nil {
		return err
	}
	defer iter.Close()
	for ok := iter.First(); ok; ok = iter.Next() {
		if err := ctx.Err(); err != nil { // each time: a record may be large
			return err
		}
		_, rev, err := splitRecordKey(iter.Key())
		if err != nil {
			return err
		}
		value, err := iter.ValueAndErr()
		if err != nil {
			return err
		}
		r, err := parseRecord(value)
		if err != nil {
			return fmt.Errorf("revision %d: %w", rev, err)
		}
		r.resource, r.revision = h.resource, rev
		if more, err := f(&r); err != nil || !more {
			return err
		}
	}
	return iter.Error()
}

func (h *history) entry(rev object.Revision, value []byte) (journal.Entry, error) {
	r, err := parseRecord(value)
	if err != nil {
		return journal.Entry{}, fmt.Errorf("revision %d: %w", rev, err)
	}
	r.resource, r.revision = h.resource, rev
	return h.decode.entry(r.own())
}

// object returns the object that was written at a revision, or nil for zero.
func (h *history) object(rev object.Revision) (*object.Object, error) {
	if rev == 0 {
		return nil, nil
	}
	if o := h.seen[rev]; o != nil {
		return o, nil
	}
	value, closer, err := h.snapshot.Get(appendRecordKey(nil, h.resource, rev))
	if err != nil {
		return nil, fmt.Errorf("revision %d: %w", rev, err)
	}
	defer closer.Close()
	e, err := h.entry(rev, value)
	return e.Object, err
}
