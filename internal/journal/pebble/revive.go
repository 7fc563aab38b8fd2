package pebble

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kapok-dev/kapok/internal/journal"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// The journal recovers from a failure of its files automatically. It tries to reopen them, with
// growing intervals, until that succeeds. The failed store stays open for its current readers; what
// they read after the failure is not reliable, so they get an ErrUnavailable. State still has the
// live objects and the newest history.
//
// The first attempt is made after 100 ms, further ones after up to 50 times as long.
const (
	retrySpread = 50
	// reserve is the free space in bytes that an attempt requires after a full disk, in addition to
	// what the logs need to become tables.
	reserve = 4 << 20
)

// down is called, once for each store, when its files have failed. It may be called from anywhere
// within pebble, so it must not block.
func (j *Journal) down(failed *store, err error) {
	j.stats.failures.Add(1)
	j.sequencer.Fail(j.refusal(err))
	j.opts.Logger.Error("journal cannot write to its files: rejecting writes until it can", "dir", j.dir, "error", err)
	j.life.RLock()
	defer j.life.RUnlock()
	if !j.life.closed {
		j.revival.Go(func() { j.comeBack(failed) })
	}
}

// refusal returns the error for writers while the files have failed.
func (j *Journal) refusal(err error) error {
	if noRoom(err) {
		return fmt.Errorf("%w: free space on the disk of %s, and writes resume without a restart: %w", journal.ErrFull, j.dir, err)
	}
	return fmt.Errorf("%w: retrying to open %s: %w", journal.ErrUnavailable, j.dir, err)
}

func (j *Journal) comeBack(failed *store) {
	since := time.Now()
	for wait := j.opts.firstRetry; ; wait = min(2*wait, retrySpread*j.opts.firstRetry) {
		timer := time.NewTimer(wait)
		select {
		case <-j.ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		err := j.reopen(failed)
		j.stats.attempts.Add(1)
		if err == nil {
			j.opts.Logger.Info("journal accepts writes again", "dir", j.dir, "after", time.Since(since))
			return
		}
		if j.ctx.Err() != nil {
			return
		}
		j.sequencer.Fail(j.refusal(err))
		j.opts.Logger.Debug("journal cannot reopen its files yet", "dir", j.dir, "error", err)
	}
}

// reopen opens the files again and replaces a store that has failed.
//
// Writes with an unknown outcome are in the files now, or never will be: once the new store has
// settled, nothing is read from the old files. Those that are there are applied, and the revisions
// of the others are given up.
func (j *Journal) reopen(failed *store) error {
	if err := j.sequencer.Settle(j.ctx); err != nil {
		return err
	}
	if !failed.disk.quiet() {
		return fmt.Errorf("an operation on the disk has not returned yet: %w", failed.disk.err())
	}
	if noRoom(failed.disk.err()) {
		j.releaseReserve()
	}
	if err := j.hasRoom(failed.disk.err()); err != nil {
		return err
	}
	next, err := j.openStore()
	if err != nil {
		return err
	}
	entries, err := j.readBack(next)
	if err == nil {
		err = next.settle()
	}
	if err != nil {
		next.abandon(err, j.leftovers)
		return err
	}
	clear(j.leftovers) // pebble has put off to remove them, too
	j.life.Lock()
	j.life.store = next
	j.life.Unlock()
	j.compacted.Store(int64(next.marks.compacted))
	j.stats.returns.Add(1)
	j.sequencer.Resume(entries)
	next.disk.watch(func(err error) { j.down(next, err) })
	_ = failed.close() // its error is known
	next.disk.release()
	return nil
}

// readBack checks a store as recovery does, and returns the entries in it that have not been
// applied, in the order of their revisions.
func (j *Journal) readBack(s *store) ([]journal.Entry, error) {
	applied, _ := j.sequencer.Head()
	var entries []journal.Entry
	decode := decoder{sealer: j.opts.Sealer}
	err := j.scan(j.ctx, s, nil, func(r *record) error {
		if r.revision <= applied {
			return nil
		}
		e, err := decode.entry(r.own())
		entries = append(entries, e)
		return err
	})
	if err != nil {
		return nil, err
	}
	if at := s.marks.totals.head; at < applied {
		return nil, damaged(s.dir, fmt.Sprintf("the store in %s ends at revision %d, but %d has been written", s.dir, at, applied), nil)
	}
	slices.SortFunc(entries, func(a, b journal.Entry) int { return int(a.Revision - b.Revision) })
	return entries, nil
}

// hasRoom returns an error while a disk that was full lacks the space to open the store: an attempt
// that must fail would only leave more files behind.
func (j *Journal) hasRoom(cause error) error {
	if !noRoom(cause) {
		return nil
	}
	need, free, known := j.room()
	if known && free < need {
		return fmt.Errorf("%d bytes are free, at least %d are required: %w", free, need, cause)
	}
	// The free space that the disk reports does not include quotas.
	return j.probe(need)
}

// probeName is a file that is written to check for space, and then removed.
const probeName = "PROBE"

func (j *Journal) probe(size int64) error {
	name := j.files.PathJoin(j.dir, probeName)
	f, err := j.files.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	zeros := make([]byte, 64<<10)
	for ; err == nil && size > 0; size -= int64(len(zeros)) {
		_, err = f.Write(zeros)
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close(), j.files.Remove(name))
}
