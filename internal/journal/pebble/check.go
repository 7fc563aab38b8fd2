package pebble

import (
	"context"
	"fmt"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/object"

	"github.com/cockroachdb/pebble/v2"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Check implements [journal.Journal]: one scan of all records, which also checks
// every block's checksum on the way.
func (j *Journal) Check(ctx context.Context) (journal.Report, error) {
	release, err := j.use()
	if err != nil {
		return journal.Report{}, err
	}
	defer release()
	c := check{newest: map[object.Key]object.Revision{}}
	c.report.Compacted = j.Compacted()
	if c.report.Head, err = j.mark(markHead); err != nil {
		return c.report, err
	}
	if err := c.run(ctx, j.db); err != nil {
		return c.report, fmt.Errorf("check journal in %s: %w", j.dir, err)
	}
	return c.report, nil
}

// check is one walk over all records.
type check struct {
	report journal.Report
	newest map[object.Key]object.Revision
	names  names
}

func (c *check) run(ctx context.Context, db *pebble.DB) error {
	iter, err := db.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: []byte{'r'}, UpperBound: []byte{'r' + 1}})
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
	return iter.Error()
}

func (c *check) problem(key object.Key, rev object.Revision, format string, args ...any) {
	c.report.Problems = append(c.report.Problems, journal.Problem{Key: key, Revision: rev, Text: fmt.Sprintf(format, args...)})
}

func (c *check) record(key, value []byte) {
	c.report.Records++
	c.report.Bytes += int64(len(key) + len(value))
	prefix, rev, err := splitRecordKey(key)
	var resource schema.GroupResource
	if err == nil {
		resource, err = resourceOf(prefix)
	}
	if err != nil {
		c.problem(object.Key{}, 0, "%v", err)
		return
	}
	r, err := parseRecord(value)
	if err != nil {
		c.problem(object.Key{Resource: resource}, rev, "%v", err)
		return
	}
	r.revision = rev
	e, err := r.entry(resource, &c.names)
	if err != nil {
		c.problem(e.Key, rev, "%v", err)
		return
	}
	c.report.Head = max(c.report.Head, rev)
	switch was := c.newest[e.Key]; {
	case r.previous >= rev:
		c.problem(e.Key, rev, "replaces revision %d, which is not older", r.previous)
	case was != 0 && was != r.previous:
		c.problem(e.Key, rev, "replaces revision %d, but the one before is %d", r.previous, was)
	case was == 0 && r.previous > c.report.Compacted:
		c.problem(e.Key, rev, "replaces revision %d, which is not there", r.previous)
	}
	if e.Object == nil {
		if c.newest[e.Key] != 0 {
			c.report.Objects--
		}
		delete(c.newest, e.Key)
		return
	}
	if c.newest[e.Key] == 0 {
		c.report.Objects++
	}
	c.newest[e.Key] = rev
}
