package etcd

import (
	"context"
	"sync"

	"github.com/kapok-dev/kapok/internal/object"
)

// reads batches the linearizable reads of Sync: one runs at a time, for all callers that arrived
// before it started.
type reads struct {
	mu struct {
		sync.Mutex
		next *read // accepts callers; nil if there are none
		busy bool  // a goroutine is reading
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

// join returns a read that has not started.
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

// readAll reads as long as callers wait.
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
		if r.err != nil {
			j.failNext(r.err)
		}
	}
}

// failNext fails the callers that arrived while a read failed: another read would only make them
// wait as long again.
func (j *Journal) failNext(err error) {
	j.reads.mu.Lock()
	defer j.reads.mu.Unlock()
	if next := j.reads.mu.next; next != nil {
		next.err = err
		close(next.done)
		j.reads.mu.next = nil
	}
}

// headOfEtcd returns etcd's revision by a linearizable read. It retries for j.patience.
func (j *Journal) headOfEtcd(ctx context.Context) (object.Revision, error) {
	ctx, cancel := context.WithTimeout(ctx, j.patience())
	defer cancel()
	var pause pause
	for {
		l, err := j.links.get(ctx)
		if err != nil {
			return 0, noAnswer(err)
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
