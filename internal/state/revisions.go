package state

import (
	"context"
	"errors"
	"slices"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/object"
)

// Revisions calls take with the writes of one object at revisions up to upTo, newest first, until
// it returns false: those of the history, the one before them, and those that the journal has in
// an archive. upTo is the revision of a write of the object; 0 means the newest. What take gets
// instead of an object that cannot be read is the reason.
//
// A write with Object nil is a deletion, one with Prev 0 has created the object. Of the last one,
// which is the oldest that is known, Prev may name a write that is not, or be negative.
func (s *State) Revisions(ctx context.Context, key object.Key, upTo object.Revision, take func(journal.Entry, error) bool) error {
	live, head := s.Get(key)
	if upTo == 0 {
		upTo = head
	}
	if live != nil && live.Revision <= upTo {
		upTo = live.Revision
	}
	if l, ok := s.journal.(journal.Lineage); ok {
		return l.Revisions(ctx, key, upTo, take)
	}
	all, err := s.lineage(ctx, key)
	if err != nil {
		return err
	}
	oldest := live // the object before the events, whose own predecessor is not known
	if len(all) > 0 {
		oldest = all[0].Prev
	}
	for _, e := range slices.Backward(all) {
		entry := journal.Entry{Key: key, Revision: e.Revision, Object: e.Object}
		if e.Prev != nil {
			entry.Prev = e.Prev.Revision
		}
		if e.Revision <= upTo && !take(entry, nil) {
			return nil
		}
	}
	if oldest != nil && oldest.Revision <= upTo {
		take(journal.Entry{Key: key, Prev: unknown, Revision: oldest.Revision, Object: oldest}, nil)
	}
	return nil
}

// unknown is the Prev of an object of which it is not known what it has replaced, if anything.
const unknown object.Revision = -1

// lineage returns the events of an object in the history, oldest first.
func (s *State) lineage(ctx context.Context, key object.Key) (all []Event, err error) {
	s.mu.RLock()
	evicted := s.mu.since
	var recent []Event
	if t := s.mu.tables[key.Resource]; t != nil {
		evicted = t.evicted
		for _, e := range t.history {
			if e.Last().Key == key {
				recent = append(recent, e)
			}
		}
	}
	s.mu.RUnlock()
	for after := s.oldest(key.Resource); after < evicted; {
		events, err := s.readBack(ctx, key.Resource, after, evicted, maxBatch)
		if errors.Is(err, journal.ErrCompacted) { // meanwhile
			all, after = nil, s.oldest(key.Resource)
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, e := range events {
			if e.Last().Key == key {
				all = append(all, e)
			}
		}
		if len(events) < maxBatch {
			break
		}
		after = events[len(events)-1].Revision
	}
	return append(all, recent...), nil
}
