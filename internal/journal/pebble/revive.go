package pebble

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/internal/journal"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// The journal comes back from a failure of its files by itself. It opens them anew,
// again and again, less and less often, until that succeeds, while the store that
// has failed stays open for those who have begun to read it. What they get is not
// to be trusted once it has failed, and is an ErrUnavailable: state has what is live,
// and the newest history.
//
// The first attempt is made after 100 ms, further ones up to 50 times later.
const (
	retrySpread = 50
	// reserve is how much room there must be before an attempt is made after a full
	// disk, beside what the logs need to become tables.
	reserve = 4 << 20
)

// down is told, once for each store, that its files have failed. It may be called
// from anywhere within pebble.
func (j *Journal) down(failed *store, err error) {
	j.stats.failures.Add(1)
	j.sequencer.Fail(j.refusal(err))
	j.opts.Logger.Error("journal cannot write to its files, and takes no writes until it can", "dir", j.dir, "error", err)
	j.life.RLock()
	defer j.life.RUnlock()
	if !j.life.closed {
		j.revival.Go(func() { j.comeBack(failed) })
	}
}

// refusal is what writers get while the files have failed.
func (j *Journal) refusal(err error) error {
	if noRoom(err) {
		return fmt.Errorf("%w: make room where %s is, and it goes on by itself: %w", journal.ErrFull, j.dir, err)
	}
	return fmt.Errorf("%w: it tries again to use %s: %w", journal.ErrUnavailable, j.dir, err)
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
			j.opts.Logger.Info("journal takes writes again", "dir", j.dir, "after", time.Since(since))
			return
		}
		if j.ctx.Err() != nil {
			return
		}
		j.sequencer.Fail(j.refusal(err))
		j.opts.Logger.Debug("journal cannot come back yet", "dir", j.dir, "error", err)
	}
}

// reopen opens the files anew in place of a store that has failed.
//
// What was written without its outcome being known is in the files now, or never
// will be: once the new store has settled, nothing is read from the old files any
// more. So it is applied if it is there, and its revisions are given up if not.
func (j *Journal) reopen(failed *store) error {
	if err := j.sequencer.Settle(j.ctx); err != nil {
		return err
	}
	if !failed.disk.quiet() {
		return fmt.Errorf("the disk has not answered yet: %w", failed.disk.err())
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

// readBack checks a store as recovery does, and returns the entries in it that have
// not been applied, in the order of their revisions.
func (j *Journal) readBack(s *store) ([]journal.Entry, error) {
	applied, _ := j.sequencer.Head()
	var entries []journal.Entry
	decode := decoder{sealer: j.opts.Sealer}
	err := j.scan(j.ctx, s, func(r *record) error {
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

// hasRoom returns an error while a disk that was full has no room for what opening
// the store needs: an attempt that must fail would only make more of a mess.
func (j *Journal) hasRoom(cause error) error {
	if !noRoom(cause) {
		return nil
	}
	need := int64(reserve)
	names, err := j.files.List(j.dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if info, err := j.files.Stat(j.files.PathJoin(j.dir, name)); err == nil && strings.HasSuffix(name, ".log") {
			need += info.Size()
		}
	}
	if usage, err := j.files.GetDiskUsage(j.dir); err == nil && usage.AvailBytes < uint64(need) {
		return fmt.Errorf("%d bytes are free, %d are needed: %w", usage.AvailBytes, need, cause)
	}
	// What the disk says does not tell of quotas.
	return j.probe(need)
}

// probeName is a file that is written to see whether there is room, and removed.
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
