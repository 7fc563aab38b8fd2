package state

import (
	"context"
	"errors"
	"fmt"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/object"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A Cursor is a position in the history of one resource. It is not safe for concurrent use.
type Cursor struct {
	state    *State
	table    *table
	resource schema.GroupResource
	at       object.Revision
	rebases  int // the state's rebases when the cursor was last up to date
}

// Watch returns a cursor behind the given revision: Next returns the events after it. It returns
// [journal.ErrCompacted] if some of them are no longer available.
func (s *State) Watch(resource schema.GroupResource, after object.Revision) (*Cursor, error) {
	if oldest := s.oldest(resource); after < oldest {
		return nil, &CompactedError{Wanted: after, Oldest: oldest}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return &Cursor{state: s, table: s.tableLocked(resource), resource: resource, at: after, rebases: s.mu.rebases}, nil
}

// oldest returns the revision after which the history of a resource is complete, in memory or in
// the journal, and not compacted.
func (s *State) oldest(resource schema.GroupResource) object.Revision {
	byJournal := s.compactedByJournal()
	s.mu.RLock()
	defer s.mu.RUnlock()
	compacted := s.compactedLocked(byJournal)
	if s.journal.KeepsHistory() {
		return compacted
	}
	evicted := s.mu.since
	if t := s.mu.tables[resource]; t != nil {
		evicted = t.evicted
	}
	return max(evicted, compacted)
}

// CompactedError reports that history does not reach back to the requested revision. It wraps
// [journal.ErrCompacted].
type CompactedError struct {
	Wanted object.Revision // events after this revision were requested
	Oldest object.Revision // history is complete after this revision
}

// Error implements error.
func (e *CompactedError) Error() string {
	return fmt.Sprintf("history before revision %d has been compacted, wanted from %d", e.Oldest, e.Wanted)
}

// Unwrap returns journal.ErrCompacted.
func (e *CompactedError) Unwrap() error { return journal.ErrCompacted }

// maxBatch bounds the events that one call of Next returns.
const maxBatch = 512

// Next returns the events behind the cursor, oldest first, and advances the cursor past them. If
// there are none, it returns a channel that is closed at the next event. The error is
// [journal.ErrCompacted] once history that the cursor has not read has been evicted.
//
// Revision returns how far the cursor has read: without events, that is the newest revision of the
// whole state.
//
// While an object of the resource cannot be read, the error is an UnreadableError: events after it
// must not be delivered.
func (c *Cursor) Next(ctx context.Context) ([]Event, <-chan struct{}, error) {
	s, t := c.state, c.table
	s.mu.RLock()
	if err := s.allReadableLocked(c.resource); err != nil {
		s.mu.RUnlock()
		return nil, nil, err
	}
	if c.rebases != s.mu.rebases {
		if c.at >= s.mu.since { // changes of a rebase have no events
			s.mu.RUnlock()
			return nil, nil, &CompactedError{Wanted: c.at, Oldest: s.mu.since}
		}
		c.rebases = s.mu.rebases
	}
	if c.at >= t.evicted {
		defer s.mu.RUnlock()
		events := t.history[t.after(c.at):]
		if len(events) == 0 {
			c.at = max(c.at, s.mu.head)
			return nil, t.wait(), nil
		}
		n := min(len(events), maxBatch)
		for n < len(events) && events[n].Revision == events[n-1].Revision {
			n++ // a revision is delivered whole
		}
		events = append([]Event(nil), events[:n]...)
		c.at = events[len(events)-1].Revision
		return events, nil, nil
	}
	upTo := t.evicted
	s.mu.RUnlock()

	events, err := s.readBack(ctx, c.resource, c.at, upTo, maxBatch)
	if errors.Is(err, journal.ErrCompacted) {
		err = &CompactedError{Wanted: c.at, Oldest: upTo}
	}
	if err != nil {
		return nil, nil, err
	}
	if len(events) < maxBatch {
		c.at = upTo
	} else {
		c.at = events[len(events)-1].Revision
	}
	if len(events) == 0 {
		return c.Next(ctx)
	}
	return events, nil, nil
}

// Revision returns the revision up to which the cursor has returned all events.
func (c *Cursor) Revision() object.Revision { return c.at }

// readBack reads events that were evicted from memory, with revisions in (after, upTo], from the
// journal. A limit of 0 means all.
func (s *State) readBack(ctx context.Context, resource schema.GroupResource, after, upTo object.Revision, limit int) ([]Event, error) {
	records, err := s.journal.History(ctx, resource, after, upTo, limit)
	if err != nil {
		return nil, err
	}
	events := make([]Event, len(records))
	for i, r := range records {
		events[i] = Event{Revision: r.Revision, Object: r.Object, Prev: r.Replaced}
	}
	return events, nil
}
