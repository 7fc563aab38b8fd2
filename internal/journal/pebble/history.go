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
func (j *Journal) History(ctx context.Context, resource schema.GroupResource, after, upTo object.Revision, limit int) ([]journal.Record, error) {
	s, release, err := j.use()
	if err != nil {
		return nil, err
	}
	defer release()
	snapshot := s.db.NewSnapshot()
	defer snapshot.Close()
	// The mark moves before records leave: whatever it allows now is in the
	// snapshot taken before.
	if after < j.Compacted() {
		return nil, journal.ErrCompacted
	}
	h := history{snapshot: snapshot, resource: resource, decode: decoder{sealer: j.opts.Sealer}, seen: map[object.Revision]*object.Object{}}
	records, err := h.read(ctx, after, upTo, limit)
	if failed := s.disk.err(); failed != nil {
		// Who tries to open the files anew may write over what this store has not read
		// yet: what it reads from then on is not to be trusted.
		return nil, j.refusal(failed)
	}
	if err != nil {
		return nil, fmt.Errorf("read the history of %s in %s: %w", resource, j.dir, judge(j.dir, "the history", err))
	}
	return records, nil
}

// history reads the records of one resource.
type history struct {
	snapshot *pebble.Snapshot
	resource schema.GroupResource
	decode   decoder
	seen     map[object.Revision]*object.Object // read already
}

func (h *history) read(ctx context.Context, after, upTo object.Revision, limit int) ([]journal.Record, error) {
	if upTo <= after {
		return nil, nil
	}
	iter, err := h.snapshot.NewIterWithContext(ctx, &pebble.IterOptions{
		LowerBound: appendRecordKey(nil, h.resource, after+1),
		UpperBound: appendRecordKey(nil, h.resource, upTo+1),
	})
	if err != nil {
		return nil, err
	}
	defer iter.Close()
	var records []journal.Record
	for ok := iter.First(); ok && (limit <= 0 || len(records) < limit); ok = iter.Next() {
		if len(records)%ctxEvery == ctxEvery-1 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		_, rev, err := splitRecordKey(iter.Key())
		if err != nil {
			return nil, err
		}
		value, err := iter.ValueAndErr()
		if err != nil {
			return nil, err
		}
		entry, err := h.entry(rev, value)
		if err != nil {
			return nil, err
		}
		replaced, err := h.object(entry.Prev)
		if err != nil {
			return nil, err
		}
		delete(h.seen, entry.Prev) // nothing else can replace it
		if entry.Object != nil {
			h.seen[rev] = entry.Object
		}
		records = append(records, journal.Record{Entry: entry, Replaced: replaced})
	}
	return records, iter.Error()
}

func (h *history) entry(rev object.Revision, value []byte) (journal.Entry, error) {
	r, err := parseRecord(value)
	if err != nil {
		return journal.Entry{}, fmt.Errorf("revision %d: %w", rev, err)
	}
	r.resource, r.revision = h.resource, rev
	return h.decode.entry(r.own())
}

// object returns the object that was written at a revision; nil for zero.
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
