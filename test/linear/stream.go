package linear

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// guarantees checks every stream, and that it received everything.
func (l *ledger) guarantees(r *Report) error {
	var errs []error
	for i := range r.Streams {
		s := &r.Streams[i]
		if err := errors.Join(ordered(s), l.reliable(s)); err != nil {
			errs = append(errs, err)
		} else if final := r.Final[s.Kind]; s.Last && s.position() < final {
			errs = append(errs, fmt.Errorf("%v has stopped at %d and missed the rest, up to %d", s, s.position(), final))
		}
	}
	return errors.Join(limit(errs)...)
}

// ordered checks that each event is newer than all events and bookmarks before it. A bookmark may
// repeat the present revision.
func ordered(s *Stream) error {
	position := s.From
	for i, e := range s.Events {
		switch rv := e.Object.Revision; {
		case e.Type == Bookmark && rv < position:
			return fmt.Errorf("%v: a bookmark goes back from %d to %d", s, position, rv)
		case e.Type == Bookmark:
		case rv > position:
		case rv <= s.From:
			return fmt.Errorf("%v: an event from before the beginning: %v", s, e)
		case slices.ContainsFunc(s.Events[:i], func(o Event) bool { return o.Type != Bookmark && o.Object.Revision == rv }):
			return fmt.Errorf("%v: an event is repeated: %v", s, e)
		default:
			return fmt.Errorf("%v: events are out of order: %v after %d", s, e, position)
		}
		position = max(position, e.Object.Revision)
	}
	return nil
}

// reliable checks that a stream has every change up to its position, and nothing else.
func (l *ledger) reliable(s *Stream) error {
	changes := l.kinds[s.Kind]
	changes = changes[after(changes, s.From):after(changes, s.position())]
	for _, e := range s.Events {
		if e.Type == Bookmark {
			continue
		}
		if len(changes) == 0 {
			return fmt.Errorf("%v: %v, which is not in the ledger", s, e)
		}
		c := changes[0]
		if c.object.Revision < e.Object.Revision {
			return fmt.Errorf("%v: an event is missing: %v, before %v", s, c, e)
		}
		if c.typ != e.Type || c.key.Name != e.Name || c.object != e.Object {
			return fmt.Errorf("%v: %v, want %v", s, e, c)
		}
		changes = changes[1:]
	}
	if len(changes) > 0 {
		return fmt.Errorf("%v: an event is missing: %v, before the bookmark at %d", s, changes[0], s.position())
	}
	return nil
}

// A span is a range of revisions, without the first and with the last.
type span struct{ after, upTo Revision }

// gaps returns the revisions of a kind, between the beginning and the end, that no stream covers.
// The end is the last write of the kind: a stream that begins later, with a list after the last
// write of another kind, does not count.
func gaps(r *Report, k Kind) (list []span) {
	streams := slices.DeleteFunc(slices.Clone(r.Streams), func(s Stream) bool { return s.Kind != k || s.From > r.Final[k] })
	slices.SortFunc(streams, func(a, b Stream) int { return cmp.Compare(a.From, b.From) })
	position := r.First[k]
	for _, s := range append(streams, Stream{From: r.Final[k]}) {
		if s.From > position {
			list = append(list, span{position, s.From})
		}
		position = max(position, s.position())
	}
	return list
}

// decidable checks that the ledger is complete. In a gap, changes are known from responses only,
// and so there must be no deletion, and no write of unknown outcome, that may have happened there.
func (l *ledger) decidable(r *Report, bounds []Revision) error {
	for k := range r.Final {
		for _, gap := range gaps(r, k) {
			for i := range r.Operations {
				o := &r.Operations[i]
				missing := o.Outcome == Unknown && l.values[o.Value] == nil || // which no deletion has
					o.Verb == Delete && o.Outcome == Done && l.deletions[o.Object.UID] == nil
				if o.Key.Kind == k && o.writes() && missing && bounds[i] < gap.upTo {
					return fmt.Errorf("%w: no watcher of %s received the events after %d up to %d, which may include %v",
						ErrUndecided, k, gap.after, gap.upTo, o)
				}
			}
		}
	}
	return nil
}
