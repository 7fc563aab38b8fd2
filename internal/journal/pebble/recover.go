package pebble

import (
	"context"
	"fmt"

	"github.com/kapok-dev/kapok/internal/journal"

	"github.com/cockroachdb/pebble/v2"
)

// Recover implements [journal.Journal]: one scan of all records, in order. Before it returns, it
// compares the records with the recorded totals and makes them durable.
func (j *Journal) Recover(ctx context.Context, sink journal.Sink) error {
	s, release, err := j.use()
	if err != nil {
		return err
	}
	defer release()
	bytes, err := j.restore(ctx, s, sink)
	if err == nil {
		err = s.settle()
	}
	if err != nil {
		return fmt.Errorf("read back the journal in %s: %w", j.dir, err)
	}
	m := s.marks
	j.sequencer = journal.NewSequencer(sink, m.totals.head, bytes, j.commit)
	sink.Restored(m.totals.head, m.compacted)
	if j.opts.ReadOnly {
		j.sequencer.Fail(fmt.Errorf("%w: %s is open with Options.ReadOnly", journal.ErrUnavailable, j.dir))
		return nil
	}
	s.disk.release()
	s.disk.watch(func(err error) { j.down(s, err) })
	return nil
}

// restore reads all records into the sink, and returns the bytes of those that are
// history. The records are read, decoded and folded at the same time, each in order.
func (j *Journal) restore(ctx context.Context, s *store, sink journal.Sink) (bytes int64, err error) {
	p := startPipeline(j.opts.Sealer, func(put func(*record) error) error {
		return j.scan(ctx, s, j.opts.Progress, func(r *record) error {
			if r.revision > s.marks.compacted {
				bytes += r.size()
			}
			return put(r)
		})
	})
	err = p.each(sink.Restore)
	return bytes, judge(j.dir, "the store in "+j.dir, err)
}

// ctxEvery is the number of records between two checks of the context, and reports of progress.
const ctxEvery = 1024

// scan calls take with every record of a store, in the order of keys, and compares
// them with what there must be. A record lives until take returns. progress is that of Options, or
// nil.
func (j *Journal) scan(ctx context.Context, s *store, progress func(read, total int64), take func(*record) error) error {
	t := tally{compacted: s.marks.compacted}
	report := func() {}
	if progress != nil {
		report = func() { progress(t.found.live, s.marks.totals.live) }
	}
	err := s.each(ctx, &t, report, take)
	if err == nil {
		err = s.check(&t)
	}
	return judge(j.dir, "the store in "+j.dir, err)
}

func (s *store) each(ctx context.Context, t *tally, report func(), take func(*record) error) (err error) {
	defer recoverDamage(&err)
	iter, err := s.db.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: []byte{'r'}, UpperBound: []byte{'r' + 1}})
	if err != nil {
		return err
	}
	defer iter.Close()
	var keys keyReader
	n := 0
	for ok := iter.First(); ok; ok = iter.Next() {
		if n++; n%ctxEvery == 0 {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			report()
		}
		rev, fresh, err := keys.next(iter.Key())
		if err != nil {
			return err
		}
		if fresh {
			t.resource()
		}
		value, err := iter.ValueAndErr()
		if err != nil {
			return err
		}
		r, err := parseRecord(value)
		if err == nil {
			r.resource, r.revision = keys.resource, rev
			err = t.add(&r)
		}
		if err != nil {
			return fmt.Errorf("%s at revision %d: %w", keys.resource, rev, err)
		}
		if err := take(&r); err != nil {
			return err
		}
	}
	return iter.Error()
}
