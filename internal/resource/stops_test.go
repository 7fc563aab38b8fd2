package resource

import (
	"context"
	"errors"
	"testing"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/journal/memory"
	"github.com/kapok-dev/kapok/internal/state"
)

// TestWatchStopsBehind: a bookmark does not pass over an event that could not be converted.
func TestWatchStopsBehind(t *testing.T) {
	st, err := state.Open(t.Context(), memory.New(), state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d := hooked(func(_ context.Context, objs []Tree, to *Version) ([]Tree, error) {
		if objs[0]["spec"] == "bad" {
			return nil, errors.New("cannot convert")
		}
		return changeVersions(objs, to), nil
	})
	s := NewStore(st, NewRegistry(d))
	r := &Request{Definition: d, Version: served(d, "v1")}
	w, err := s.Watch(t.Context(), r, WatchOptions{ResourceVersion: "1"})
	if err != nil {
		t.Fatal(err)
	}
	for i, spec := range []string{"good", "good", "bad"} {
		o := stored(t, d, i+1, spec)
		if _, err := st.Append(t.Context(), journal.Batch{Entries: []journal.Entry{{Key: o.Key, Object: o}}}); err != nil {
			t.Fatal(err)
		}
	}
	told, err := 0, error(nil)
	for err == nil {
		var events []WatchEvent
		events, _, err = w.Next(t.Context())
		told += len(events)
	}
	if told != 1 || w.Revision() != 2 || !errors.Is(err, ErrEnds) {
		t.Errorf("%d events, up to revision %d, %v", told, w.Revision(), err)
	}
}
