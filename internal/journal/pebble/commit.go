package pebble

import (
	"fmt"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/object"

	"github.com/cockroachdb/pebble/v2"
)

// commit makes a group of entries durable. One group is committed at a time. It returns an
// ErrUnavailable if nothing of the group has been written.
func (j *Journal) commit(entries []journal.Entry) error {
	j.life.RLock()
	s := j.life.store // stays open: Close and comeBack wait for commits
	j.life.RUnlock()
	// A failure in the background may not have been reported to [Journal.down] yet.
	if err := s.disk.err(); err != nil {
		refusal := j.refusal(err)
		j.sequencer.Fail(refusal)
		return refusal
	}
	batch := s.db.NewBatchWithSize(batchSize(entries))
	defer batch.Close()
	marks, err := s.fill(batch, entries, j.Compacted(), writer{sealer: j.opts.Sealer})
	if err != nil {
		return fmt.Errorf("%w: %w", journal.ErrUnavailable, err)
	}
	j.stats.commits.Add(1)
	if err := s.db.Apply(batch, pebble.Sync); err != nil {
		s.disk.fail(err)
	}
	// Writes to frozen files succeed and are discarded. The group is durable only if the files were
	// not frozen when the sync returned.
	if err := s.disk.err(); err != nil {
		j.sequencer.Fail(j.refusal(err))
		return err
	}
	if err := s.note(marks.totals.head, (*headFile).write); err != nil {
		return err
	}
	s.marks.totals, s.marks.lost = marks.totals, marks.lost
	j.stats.entries.Add(int64(len(entries)))
	j.stats.bytes.Add(int64(batch.Len()))
	return nil
}

// fill puts a group and its totals into a batch. It returns the marks as they are once the group
// has been written.
func (s *store) fill(batch *pebble.Batch, entries []journal.Entry, compacted object.Revision, w writer) (m marks, err error) {
	m = s.marks
	if from, to := m.totals.head+1, entries[0].Revision-1; from <= to {
		m.lost = m.lost.add(span{from, to}, compacted)
		if err := batch.Set([]byte(markLost), m.lost.encode(), nil); err != nil {
			return m, err
		}
	}
	for i := range entries {
		e := &entries[i]
		if err := w.put(batch, e); err != nil {
			return m, err
		}
		if e.Prev > 0 {
			m.totals.remove(e.Prev)
		}
		if e.Object != nil {
			m.totals.add(e.Revision)
		}
		m.totals.head = e.Revision
	}
	return m, batch.Set([]byte(markTotals), m.totals.encode(), nil)
}
