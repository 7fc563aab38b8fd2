package state

import (
	"context"
	"errors"
	"fmt"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/object"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A Cursor is a position in the history of one resource. It is for one goroutine.
type Cursor struct {
	state    *State
	table    *table
	resource schema.GroupResource
	at       object.Revision
	rebases  int // of the state, when the cursor was last in step with it
}

// Watch returns a cursor that stands behind the given revision: Next returns the
// events after it. It returns [journal.ErrCompacted] if some of them are gone.
func (s *State) Watch(resource schema.GroupResource, after object.Revision) (*Cursor, error) {
	if oldest := s.oldest(resource); after < oldest {
		return nil, &CompactedError{Wanted: after, Oldest: oldest}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return &Cursor{state: s, table: s.tableLocked(resource), resource: resource, at: after, rebases: s.mu.rebases}, nil
}

// oldest is the revision after which the history of a resource is complete, in
// memory or in the journal.
func (s *State) oldest(resource schema.GroupResource) object.Revision {
	s.mu.RLock()
	evicted := s.mu.since
	if t := s.mu.tables[resource]; t != nil {
		evicted = t.evicted
	}
	s.mu.RUnlock()
	return min(evicted, s.journal.Compacted())
}

// CompactedError says that history no longer reaches back as far as somebody
// wants. It is a [journal.ErrCompacted].
type CompactedError struct {
	Wanted object.Revision // events after this one were asked for
	Oldest object.Revision // history is complete after this one
}

func (e *CompactedError) Error() string {
	return fmt.Sprintf("history before revision %d has been compacted, wanted from %d", e.Oldest, e.Wanted)
}

// Unwrap makes errors.Is find journal.ErrCompacted.
func (e *CompactedError) Unwrap() error { return journal.ErrCompacted }

// maxBatch bounds the events that one call of Next returns.
const maxBatch = 512

// Next returns the events behind the cursor, oldest first, and moves over them.
// Where there are none yet, it returns a channel that is closed when there are.
// The error is [journal.ErrCompacted] once history has overtaken the cursor.
//
// Revision tells how far the cursor has got: with no events, to the newest
// revision of the whole state.
//
// While an object of the resource cannot be read, the error is an UnreadableError:
// nobody is to see what comes after it.
func (c *Cursor) Next(ctx context.Context) ([]Event, <-chan struct{}, error) {
	s, t := c.state, c.table
	s.mu.RLock()
	if err := s.allReadableLocked(c.resource); err != nil {
		s.mu.RUnlock()
		return nil, nil, err
	}
	if c.rebases != s.mu.rebases {
		if c.at >= s.mu.since { // what changed there has no event
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
			n++ // a revision is seen whole
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

// Revision is the revision up to which the cursor has seen everything.
func (c *Cursor) Revision() object.Revision { return c.at }

// readBack reads events that have left memory, with revisions in (after, upTo],
// from the journal. A limit of 0 means all.
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
