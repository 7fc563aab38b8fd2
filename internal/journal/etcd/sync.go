package etcd

import (
	"context"
	"sync"

	"github.com/kapok-dev/kapok/internal/object"
)

// reads are the linearizable reads of Sync: one at a time, each for everybody who
// came before it began.
type reads struct {
	mu struct {
		sync.Mutex
		next *read // takes callers; nil if there are none
		busy bool  // there is a goroutine that reads
	}
}

type read struct {
	done     chan struct{}
	revision object.Revision
	err      error
}

// Sync implements [journal.Journal].
func (j *Journal) Sync(ctx context.Context) (shared bool, err error) {
	release, err := j.use()
	if err != nil {
		return false, err
	}
	defer release()
	if err := j.links.err(); err != nil {
		return true, unavailable(err)
	}
	r := j.join()
	select {
	case <-r.done:
	case <-ctx.Done():
		return true, ctx.Err()
	}
	if r.err != nil {
		return true, unavailable(r.err)
	}
	waiting, cancel := j.bounded(ctx, j.opts.RequestTimeout)
	defer cancel()
	if err := j.await(waiting, r.revision, true); err != nil {
		if ctx.Err() != nil {
			return true, ctx.Err()
		}
		return true, j.failed(err)
	}
	return true, nil
}

// join returns a read that has not begun.
func (j *Journal) join() *read {
	j.reads.mu.Lock()
	defer j.reads.mu.Unlock()
	if j.reads.mu.next == nil {
		j.reads.mu.next = &read{done: make(chan struct{})}
	}
	if !j.reads.mu.busy {
		j.reads.mu.busy = true
		j.running.Go(j.readAll)
	}
	return j.reads.mu.next
}

// readAll reads as long as there is somebody who waits for it.
func (j *Journal) readAll() {
	for {
		j.reads.mu.Lock()
		r := j.reads.mu.next
		j.reads.mu.next = nil
		j.reads.mu.busy = r != nil
		j.reads.mu.Unlock()
		if r == nil {
			return
		}
		r.revision, r.err = j.headOfEtcd(j.ctx)
		close(r.done)
	}
}

// headOfEtcd returns etcd's revision, by a linearizable read.
func (j *Journal) headOfEtcd(ctx context.Context) (object.Revision, error) {
	ctx, cancel := context.WithTimeout(ctx, j.opts.RequestTimeout)
	defer cancel()
	var pause pause
	for {
		l, err := j.links.get(ctx)
		if err != nil {
			return 0, err
		}
		once, cancel := context.WithTimeout(ctx, j.probeTimeout())
		revision, _, err := l.probe(once, j.values.markKey())
		cancel()
		if err == nil {
			return revision, nil
		}
		l.suspect()
		pause.wait(ctx)
		if ctx.Err() != nil {
			return 0, err
		}
	}
}
