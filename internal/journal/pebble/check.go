package pebble

import (
	"context"
	"fmt"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/object"

	"github.com/cockroachdb/pebble/v2"
)

// Check implements [journal.Journal]: one scan of all records, which also verifies the checksum of
// every block. It reads the store as of the call; later writes do not affect it.
func (j *Journal) Check(ctx context.Context) (journal.Report, error) {
	s, snapshot, release, err := j.snapshot()
	if err != nil {
		return journal.Report{}, err
	}
	defer release()
	var c check
	err = c.run(ctx, snapshot, decoder{sealer: j.opts.Sealer})
	if failed := s.disk.err(); failed != nil {
		return journal.Report{}, j.refusal(failed) // as in History
	}
	if err != nil {
		return c.report, fmt.Errorf("check journal in %s: %w", j.dir, judge(j.dir, "the store in "+j.dir, err))
	}
	return c.report, nil
}

// check is one scan of all records, which continues behind inconsistent records.
type check struct {
	report journal.Report
	decode decoder
	tally  tally
	keys   keyReader
}

func (c *check) run(ctx context.Context, snapshot *pebble.Snapshot, decode decoder) (err error) {
	defer recoverDamage(&err)
	marks, err := readMarks(snapshot)
	if err != nil {
		return err
	}
	c.decode, c.tally.compacted = decode, marks.compacted
	c.report.Head, c.report.Compacted = marks.totals.head, marks.compacted
	iter, err := snapshot.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: []byte{'r'}, UpperBound: []byte{'r' + 1}})
	if err != nil {
		return err
	}
	defer iter.Close()
	for ok := iter.First(); ok; ok = iter.Next() {
		if c.report.Records%ctxEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		value, err := iter.ValueAndErr()
		if err != nil {
			return err
		}
		c.record(iter.Key(), value)
	}
	if err := iter.Error(); err != nil {
		return err
	}
	if err := c.tally.compare(&marks); err != nil {
		c.problem(object.Key{}, 0, err)
	}
	c.report.Objects = int(c.tally.found.live)
	return c.archive(ctx, snapshot)
}

// archive checks the records of the archive, each by itself: it may lack any of them.
func (c *check) archive(ctx context.Context, snapshot *pebble.Snapshot) error {
	iter, err := snapshot.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: []byte{'a'}, UpperBound: []byte{'a' + 1}})
	if err != nil {
		return err
	}
	defer iter.Close()
	for ok := iter.First(); ok; ok = iter.Next() {
		if c.report.Archived%ctxEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		value, err := iter.ValueAndErr()
		if err != nil {
			return err
		}
		c.report.Archived++
		c.report.ArchivedBytes += int64(len(iter.Key()) + len(value))
		r, err := parseArchived(iter.Key(), value)
		if err == nil {
			_, err = c.decode.entry(&r)
		}
		if err != nil {
			c.problem(r.key(), r.revision, fmt.Errorf("in the archive: %w", err))
		}
	}
	return iter.Error()
}

func (c *check) problem(key object.Key, rev object.Revision, err error) {
	c.report.Problems = append(c.report.Problems, journal.Problem{Key: key, Revision: rev, Text: err.Error()})
}

func (c *check) record(key, value []byte) {
	c.report.Records++
	c.report.Bytes += int64(len(key) + len(value))
	rev, fresh, err := c.keys.next(key)
	if err != nil {
		c.problem(object.Key{}, 0, err)
		return
	}
	if fresh {
		c.tally.resource()
	}
	r, err := parseRecord(value)
	if err != nil {
		c.problem(object.Key{Resource: c.keys.resource}, rev, err)
		return
	}
	r.resource, r.revision = c.keys.resource, rev
	if err := c.tally.add(&r); err != nil {
		c.problem(r.key(), rev, err)
	}
	if _, err := c.decode.entry(&r); err != nil {
		c.problem(r.key(), rev, err)
	}
}
