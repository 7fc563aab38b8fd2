package pebble

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/object"

	"github.com/cockroachdb/pebble/v2"
)

// Compact implements [journal.Journal].
//
// It first moves the mark, durably, and then sweeps: it scans the records between the last sweep
// and the mark, a range of each resource, and removes the records that they replaced, and those
// that are deletions, or moves them to the archive. If a crash interrupts a sweep, the next Compact
// completes it. At the end it removes from the archive what it no longer keeps.
func (j *Journal) Compact(ctx context.Context, upTo object.Revision) error {
	s, release, err := j.use()
	if err != nil {
		return err
	}
	defer release()
	j.compacting.Lock()
	defer j.compacting.Unlock()
	if err := j.sequencer.Health(); err != nil {
		return err
	}
	head, _ := j.Head()
	upTo = max(min(upTo, head), j.Compacted())
	swept, err := readMark(s.db, markSwept)
	if err == nil && upTo > j.Compacted() {
		err = j.moveMark(s, upTo)
	}
	if err == nil && upTo > swept {
		err = s.sweep(ctx, swept, upTo, j.archives())
	}
	if err == nil {
		err = s.expire(ctx, time.Now(), j.opts.Archive.Bytes)
	}
	if err == nil && j.scarce.Load() {
		err = s.db.Flush() // space is freed when the removals reach the tables, not before
	}
	switch failed := s.disk.err(); {
	case failed != nil:
		return j.refusal(failed)
	case err != nil:
		return fmt.Errorf("compact journal in %s: %w", j.dir, judge(j.dir, "the history", err))
	}
	return nil
}

// archives returns what a sweep moves to the archive: nothing while the disk is full, as that would
// need space before any is freed.
func (j *Journal) archives() *journal.Archive {
	if j.scarce.Load() {
		return &journal.Archive{}
	}
	return &j.opts.Archive
}

// moveMark moves the mark, which drops history.
func (j *Journal) moveMark(s *store, upTo object.Revision) error {
	if err := s.db.Set([]byte(markCompacted), encodeMark(upTo), pebble.Sync); err != nil {
		return err
	}
	if err := s.disk.err(); err != nil {
		return err
	}
	j.compacted.Store(int64(upTo))
	return nil
}

// sweep removes the records that those with revisions in (after, upTo] supersede. Its writes need
// no sync: they reach the log in order, and any part of them can be repeated.
func (s *store) sweep(ctx context.Context, after, upTo object.Revision, kept *journal.Archive) (err error) {
	iter, err := s.db.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: []byte{'r'}, UpperBound: []byte{'r' + 1}})
	if err != nil {
		return err
	}
	defer iter.Close()
	w := sweep{store: s, batch: s.db.NewBatch(), kept: kept, now: time.Now()}
	defer func() {
		w.batch.Close()
		if err != nil {
			s.archive.counted = false // what has been moved is not known
		}
	}()

	for ok := iter.First(); ok; {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		prefix, rev, err := splitRecordKey(iter.Key())
		switch {
		case err != nil:
			return err
		case rev <= after: // to the first record that has not been swept
			ok = iter.SeekGE(w.key(prefix, after+1))
		case rev > upTo: // to the next resource
			ok = iter.SeekGE(w.key(prefix, -1))
		default:
			value, err := iter.ValueAndErr()
			if err != nil {
				return err
			}
			if err := w.record(prefix, rev, value); err != nil {
				return err
			}
			ok = iter.Next()
		}
	}
	if err := iter.Error(); err != nil {
		return err
	}
	if err := w.batch.Set([]byte(markSwept), encodeMark(upTo), nil); err != nil {
		return err
	}
	return w.flush()
}

type sweep struct {
	store *store
	batch *pebble.Batch
	kept  *journal.Archive
	now   time.Time
	keys  keyReader
	buf   []byte
}

// sweepBatch is the size of one write of removals in bytes, small enough not to delay other
// writers.
const sweepBatch = 64 << 10

// record removes all that one record supersedes in one write: a deletion must not be removed while
// the object that it deletes is still stored.
func (s *sweep) record(prefix []byte, rev object.Revision, value []byte) error {
	r, err := parseRecord(value)
	if err != nil {
		return fmt.Errorf("revision %d: %w", rev, err)
	}
	var key object.Key
	keep := time.Duration(0)
	if len(s.kept.Rules) > 0 {
		if _, _, err := s.keys.next(s.key(prefix, rev)); err != nil {
			return err
		}
		r.resource = s.keys.resource
		key = r.key()
		keep = s.kept.Keep(key)
	}
	if r.previous > 0 {
		if err := s.remove(prefix, r.previous, key, keep); err != nil {
			return err
		}
	}
	if r.deleted {
		if err := s.remove(prefix, rev, key, keep); err != nil {
			return err
		}
	}
	if s.batch.Len() < sweepBatch {
		return nil
	}
	return s.flush()
}

// remove removes the record of an object, or moves it to the archive if keep is not 0.
func (s *sweep) remove(prefix []byte, rev object.Revision, key object.Key, keep time.Duration) error {
	at := s.key(prefix, rev)
	if keep > 0 {
		if err := s.archive(at, key, rev, keep); err != nil {
			return err
		}
	}
	return s.batch.Delete(at, nil)
}

func (s *sweep) flush() error {
	if err := s.store.db.Apply(s.batch, pebble.NoSync); err != nil {
		return err
	}
	s.batch.Reset()
	return s.store.disk.err()
}

// key appends a revision to a prefix; -1 stands for one above all others.
func (s *sweep) key(prefix []byte, rev object.Revision) []byte {
	s.buf = append(append(s.buf[:0], prefix...), bytes.Repeat([]byte{0xff}, 8)...)
	if rev >= 0 {
		copy(s.buf[len(prefix):], encodeMark(rev))
	}
	return s.buf
}
