package pebble

import (
	"bytes"
	"context"
	"fmt"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/object"

	"github.com/cockroachdb/pebble/v2"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Recover implements [journal.Journal]: one scan of all records, in order.
func (j *Journal) Recover(ctx context.Context, sink journal.Sink) error {
	release, err := j.use()
	if err != nil {
		return err
	}
	defer release()
	head, err := j.mark(markHead)
	if err != nil {
		return err
	}
	scan := scan{compacted: j.Compacted(), head: head}
	if err := scan.run(ctx, j.db, sink); err != nil {
		return fmt.Errorf("read back the journal in %s: %w", j.dir, err)
	}
	j.sequencer = journal.NewSequencer(sink, scan.head, scan.bytes, j.commit)
	sink.Restored(scan.head, scan.compacted)
	return nil
}

// scan is one walk over all records.
type scan struct {
	compacted object.Revision
	head      object.Revision // the newest revision seen
	bytes     int64           // of the records that are history

	prefix   []byte // of the resource that is being read
	resource schema.GroupResource
	names    names
}

// ctxEvery is how many records are read before the context is asked.
const ctxEvery = 1024

func (s *scan) run(ctx context.Context, db *pebble.DB, sink journal.Sink) error {
	iter, err := db.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: []byte{'r'}, UpperBound: []byte{'r' + 1}})
	if err != nil {
		return err
	}
	defer iter.Close()
	n := 0
	for ok := iter.First(); ok; ok = iter.Next() {
		if n++; n%ctxEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		value, err := iter.ValueAndErr()
		if err != nil {
			return err
		}
		if err := s.record(iter.Key(), value, sink); err != nil {
			return err
		}
	}
	return iter.Error()
}

func (s *scan) record(key, value []byte, sink journal.Sink) error {
	prefix, rev, err := splitRecordKey(key)
	if err != nil {
		return err
	}
	if !bytes.Equal(prefix, s.prefix) {
		if s.resource, err = resourceOf(prefix); err != nil {
			return err
		}
		s.prefix = append(s.prefix[:0], prefix...)
	}
	r, err := parseRecord(value)
	if err != nil {
		return fmt.Errorf("%s at revision %d: %w", s.resource, rev, err)
	}
	r.revision = rev
	e, err := r.entry(s.resource, &s.names)
	if err != nil {
		return fmt.Errorf("revision %d: %w", rev, err)
	}
	sink.Restore(e)
	s.head = max(s.head, rev)
	if rev > s.compacted {
		s.bytes += r.size()
	}
	return nil
}
