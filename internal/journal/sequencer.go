package journal

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/kapok-dev/kapok/internal/object"
)

// A Sequencer orders the writes of a journal that has a single writer process: it checks
// preconditions against the state and an overlay of pending entries, numbers the entries, and
// commits them in groups.
//
// # Groups
//
// A writer that finds no open group opens one and leads it. The leader waits until the previous
// group is done; meanwhile others join. Then it seals the group, commits its entries in one
// operation, applies them and wakes all its writers. While one group syncs, the next one fills, so
// that many writers share one sync. The Sequencer starts no goroutine: leaders are the callers of
// Append.
//
// A batch whose keys or guards touch a pending entry waits for that entry's group before it is
// checked: only then its precondition can be evaluated.
//
// # Failures
//
// After a commit with an unknown outcome, or after Fail, nothing is written until Resume supplies
// the outcome. Revisions are not reused.
type Sequencer struct {
	sink   Sink
	commit func([]Entry) error // see NewSequencer; called by one leader at a time

	mu struct {
		sync.Mutex
		last    object.Revision // the newest assigned revision
		head    object.Revision // the newest commit
		bytes   int64           // of all commits
		overlay map[object.Key]*group
		open    *group // accepts entries; its leader waits for the group before
		tail    *group // the newest group that was opened
		failed  error  // an ErrUnavailable: no writes until Resume
		closed  bool
	}
}

type group struct {
	before  *group // must be done before this one; nil once it is
	entries []Entry
	done    chan struct{} // closed when err is set and entries are applied
	err     error
}

// NewSequencer returns a Sequencer that continues after the revision head, up to which the journal
// holds the given number of bytes. It calls commit to make the entries of a group durable. An
// ErrUnavailable from commit means that nothing was written, and is returned to the writers; after
// any other error the outcome is unknown.
func NewSequencer(sink Sink, head object.Revision, bytes int64, commit func([]Entry) error) *Sequencer {
	s := &Sequencer{sink: sink, commit: commit}
	s.mu.last, s.mu.head, s.mu.bytes = head, head, bytes
	s.mu.overlay = map[object.Key]*group{}
	return s
}

// Append is Journal.Append.
func (s *Sequencer) Append(ctx context.Context, b Batch) (object.Revision, error) {
	if err := b.Validate(); err != nil {
		return 0, err
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	s.mu.Lock()
	for {
		pending, err := s.checkLocked(b)
		if err != nil {
			s.mu.Unlock()
			return 0, err
		}
		if pending == nil {
			break
		}
		s.mu.Unlock()
		select {
		case <-pending.done:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
		s.mu.Lock()
	}
	g, lead := s.enterLocked(b)
	revision := s.mu.last
	s.mu.Unlock()
	if lead {
		s.flush(g)
	} else {
		<-g.done
	}
	if g.err != nil {
		return 0, g.err
	}
	return revision, nil
}

// checkLocked checks the preconditions of a batch, or returns the pending group that the batch must
// wait for.
func (s *Sequencer) checkLocked(b Batch) (*group, error) {
	switch {
	case s.mu.closed:
		return nil, ErrClosed
	case s.mu.failed != nil:
		return nil, s.mu.failed
	}
	for i := range b.Entries {
		if g := s.mu.overlay[b.Entries[i].Key]; g != nil {
			return g, nil
		}
	}
	for i := range b.Guards {
		if g := s.mu.overlay[b.Guards[i].Key]; g != nil {
			return g, nil
		}
	}
	for i := range b.Entries {
		e := &b.Entries[i]
		if at := s.sink.Revision(e.Key); at != e.Prev {
			return nil, &ConflictError{Key: e.Key, Want: e.Prev, Current: at}
		}
	}
	for _, g := range b.Guards {
		if at := s.sink.Revision(g.Key); at != g.Revision {
			return nil, &ConflictError{Key: g.Key, Want: g.Revision, Current: at, Guard: true}
		}
	}
	return nil, nil
}

// enterLocked numbers the entries and adds them to the open group. lead reports that the caller
// opened the group and must flush it.
func (s *Sequencer) enterLocked(b Batch) (g *group, lead bool) {
	g = s.mu.open
	if g == nil {
		g = &group{before: s.mu.tail, done: make(chan struct{})}
		s.mu.open, s.mu.tail = g, g
		lead = true
	}
	for _, e := range b.Entries {
		s.mu.last++
		e.Revision = s.mu.last
		if e.Object != nil {
			e.Object.Revision = s.mu.last
		}
		g.entries = append(g.entries, e)
		s.mu.overlay[e.Key] = g
	}
	return g, lead
}

// flush commits a group, applies it and wakes its writers.
func (s *Sequencer) flush(g *group) {
	if g.before != nil {
		<-g.before.done
		g.before = nil
	}
	s.mu.Lock()
	s.mu.open = nil // sealed: the next writer opens another
	failed := s.mu.failed
	s.mu.Unlock()

	if failed != nil {
		g.err = failed // nothing of this group has been written, and nothing will be
	} else if err := s.commitAndApply(g.entries); errors.Is(err, ErrUnavailable) {
		g.err = err
	} else if err != nil {
		g.err, failed = &unknownError{err}, &unavailableError{err}
	}

	s.mu.Lock()
	if s.mu.failed == nil { // the error of Fail has more detail
		s.mu.failed = failed
	}
	if g.err == nil {
		s.advanceLocked(g.entries)
	}
	for i := range g.entries {
		delete(s.mu.overlay, g.entries[i].Key)
	}
	if s.mu.tail == g {
		s.mu.tail = nil
	}
	s.mu.Unlock()
	close(g.done)
}

// commitAndApply turns a panic into an error, because other writers wait for this group.
func (s *Sequencer) commitAndApply(entries []Entry) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	if err := s.commit(entries); err != nil {
		return err
	}
	s.sink.Apply(entries)
	return nil
}

func (s *Sequencer) advanceLocked(entries []Entry) {
	s.mu.head = entries[len(entries)-1].Revision
	s.mu.bytes += sizeOf(entries)
}

// Fail rejects all writes from now on with err, which must be an ErrUnavailable. It may be called
// again with a newer reason. Running groups end on their own.
func (s *Sequencer) Fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.failed = err
}

// Settle waits, after Fail, for the running groups. Head does not change after it.
func (s *Sequencer) Settle(ctx context.Context) error {
	s.mu.Lock()
	tail := s.mu.tail
	s.mu.Unlock()
	if tail == nil {
		return nil
	}
	select {
	case <-tail.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Resume accepts writes again, after Fail and Settle. The entries, if any, are those of failed
// commits that turned out to be durable, in the order of their revisions; Resume applies them
// first.
func (s *Sequencer) Resume(entries []Entry) {
	if len(entries) > 0 {
		s.sink.Apply(entries)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(entries) > 0 {
		s.advanceLocked(entries)
	}
	s.mu.failed = nil
}

func sizeOf(entries []Entry) int64 {
	size := 0
	for i := range entries {
		size += entries[i].Size()
	}
	return int64(size)
}

// Head is Journal.Head.
func (s *Sequencer) Head() (object.Revision, int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.head, s.mu.bytes
}

// Health is Journal.Health.
func (s *Sequencer) Health() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		return ErrClosed
	}
	return s.mu.failed
}

// Sync is Journal.Sync: with a single writer process, what is committed is applied.
func (s *Sequencer) Sync(context.Context) (shared bool, err error) { return false, s.Err() }

// Err returns ErrClosed once Close has been called.
func (s *Sequencer) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		return ErrClosed
	}
	return nil
}

// Close rejects further writes and waits for running ones.
func (s *Sequencer) Close() {
	s.mu.Lock()
	s.mu.closed = true
	tail := s.mu.tail
	s.mu.Unlock()
	if tail != nil {
		<-tail.done
	}
}

// unknownError is an ErrUnknown with its cause.
type unknownError struct{ cause error }

func (e *unknownError) Error() string   { return ErrUnknown.Error() + ": " + e.cause.Error() }
func (e *unknownError) Unwrap() []error { return []error{ErrUnknown, e.cause} }

// unavailableError is an ErrUnavailable with the failure that the journal has not recovered from.
type unavailableError struct{ cause error }

func (e *unavailableError) Error() string {
	return ErrUnavailable.Error() + " after a failed write: " + e.cause.Error()
}
func (e *unavailableError) Unwrap() []error { return []error{ErrUnavailable, e.cause} }
