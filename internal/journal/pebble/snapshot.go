package pebble

import (
	"fmt"
	"io"
	"sync"

	"github.com/kapok-dev/kapok/internal/journal"

	"github.com/cockroachdb/pebble/v2"
)

// maxUnclosed is the number of snapshots that may wait to be closed before no more are taken. Each
// needs some 100 bytes.
const maxUnclosed = 10_000

// snapshot returns the open store and a snapshot of it, and keeps both until release is called;
// release does not wait for the disk. It returns [journal.ErrUnavailable] if the disk has blocked
// for so long that maxUnclosed snapshots wait to be closed.
func (j *Journal) snapshot() (s *store, snapshot *pebble.Snapshot, release func(), err error) {
	s, done, err := j.use()
	if err != nil {
		return nil, nil, nil, err
	}
	if s.unclosed.len() >= maxUnclosed {
		done()
		return nil, nil, nil, fmt.Errorf("%w: the disk of %s does not respond", journal.ErrUnavailable, j.dir)
	}
	if snapshot, err = s.newSnapshot(); err != nil {
		done()
		return nil, nil, nil, judge(j.dir, "the store in "+j.dir, err)
	}
	return s, snapshot, func() {
		defer done()
		s.closeLater(snapshot)
	}, nil
}

func (s *store) newSnapshot() (snapshot *pebble.Snapshot, err error) {
	defer recoverDamage(&err)
	return s.db.NewSnapshot(), nil
}

// closeLater closes a snapshot in the background, because closing takes a lock of pebble that a
// flush or a compaction holds while it syncs the list of tables. One goroutine closes all of them
// in order. It starts with the first, ends with the last, and counts as a user of the store, so
// that the store waits for it. The caller must be a user, too.
func (s *store) closeLater(snapshot io.Closer) {
	if s.unclosed.put(snapshot) {
		s.users.Go(s.closeSnapshots)
	}
}

func (s *store) closeSnapshots() {
	for snapshot := s.unclosed.first(); snapshot != nil; snapshot = s.unclosed.next() {
		if err := closeSnapshot(snapshot); err != nil {
			s.disk.log.Error("journal cannot close a snapshot", "dir", s.dir, "error", err)
		}
	}
}

func closeSnapshot(snapshot io.Closer) (err error) {
	defer recoverDamage(&err)
	return snapshot.Close()
}

// closeQueue holds what waits to be closed, the oldest first. The first is being closed.
type closeQueue struct {
	mu      sync.Mutex
	waiting []io.Closer
}

func (q *closeQueue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting)
}

// put adds c to the queue, and reports whether the queue was empty: then the caller starts the
// goroutine.
func (q *closeQueue) put(c io.Closer) (empty bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, c)
	return len(q.waiting) == 1
}

func (q *closeQueue) first() io.Closer {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiting[0]
}

// next removes the first, which has been closed, and returns the one behind it; nil if there is
// none.
func (q *closeQueue) next() io.Closer {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting[0] = nil
	if q.waiting = q.waiting[1:]; len(q.waiting) == 0 {
		q.waiting = nil // the array may be large
		return nil
	}
	return q.waiting[0]
}
