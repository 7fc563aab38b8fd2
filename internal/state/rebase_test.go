package state

import (
	"errors"
	"testing"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/journal/memory"
	"github.com/kapok-dev/kapok/internal/object"
)

// TestRebase: changes without history are visible at once, and no follower takes the events it has
// seen for all changes.
func TestRebase(t *testing.T) {
	j := memory.New()
	s, err := Open(t.Context(), j, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	key := func(name string) object.Key { return object.Key{Resource: pods, Namespace: "n", Name: name} }
	old := newObject(t, key("old"), "x", "owner")
	at, err := s.Append(t.Context(), journal.Batch{Entries: []journal.Entry{{Key: key("old"), Object: old}}})
	if err != nil {
		t.Fatal(err)
	}
	feed := s.Feed(func(*Event) bool { return true })
	defer feed.Close()
	for _, head := range []object.Revision{at + 10, at + 10} { // the second time what was seen had no revision of its own
		cursor, err := s.Watch(pods, s.Revision())
		if err != nil {
			t.Fatal(err)
		}
		_, changed, err := cursor.Next(t.Context())
		if err != nil || changed == nil {
			t.Fatalf("a new cursor: %v", err)
		}
		o := newObject(t, key("new"), "x")
		o.Revision = head - 1
		prev := s.revision(key("new"))
		(*sink)(s).Rebase([]journal.Entry{{Key: key("new"), Prev: prev, Revision: head - 1, Object: o}}, head)
		<-changed
		if _, _, err := cursor.Next(t.Context()); !errors.Is(err, journal.ErrCompacted) {
			t.Errorf("a cursor from before: %v", err)
		}
		if events, _ := feed.Take(); len(events) != 1 || events[0].Object != o {
			t.Errorf("the feed brings %v", events)
		}
		if got, at := s.Get(key("new")); got != o || at != head {
			t.Errorf("holds %v at %d", got, at)
		}
	}
	if n := s.Snapshot(pods).Len(); n != 2 {
		t.Errorf("%d objects", n)
	}
}

func (s *State) revision(k object.Key) object.Revision { return (*sink)(s).Revision(k) }

// TestUnreadable: unknown content is not treated as absent.
func TestUnreadable(t *testing.T) {
	j := memory.New()
	s, err := Open(t.Context(), j, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	cursor, err := s.Watch(pods, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, changed, err := cursor.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	key, why := object.Key{Resource: pods, Namespace: "n", Name: "x"}, errors.New("no key")
	(*sink)(s).Unreadable(key, why)
	<-changed
	if _, _, err := cursor.Next(t.Context()); !errors.Is(err, why) {
		t.Errorf("a cursor: %v", err)
	}
	other := key
	other.Name = "y"
	if s.Readable(key) == nil || s.AllReadable(pods) == nil || s.Readable(other) != nil || s.AllReadable(nodes) != nil {
		t.Errorf("%v, %v, %v, %v", s.Readable(key), s.AllReadable(pods), s.Readable(other), s.AllReadable(nodes))
	}
	(*sink)(s).Unreadable(key, nil)
	if _, _, err := cursor.Next(t.Context()); err != nil || s.Readable(key) != nil || s.AllReadable(pods) != nil {
		t.Errorf("a cursor, when it can be read: %v", err)
	}
}
