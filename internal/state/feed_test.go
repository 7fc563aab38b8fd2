package state_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/journal/memory"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/state"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestFeed(t *testing.T) {
	j := memory.New()
	defer j.Close()
	st, err := state.Open(context.Background(), j, state.Options{HistoryBytes: 1}) // a feed needs no history
	if err != nil {
		t.Fatal(err)
	}
	write := func(resource, name string, prev object.Revision, gone bool) object.Revision {
		t.Helper()
		e := journal.Entry{Key: object.Key{Resource: schema.GroupResource{Resource: resource}, Name: name}, Prev: prev}
		if !gone {
			if e.Object, err = object.New(e.Key, map[string]any{"metadata": map[string]any{"uid": name}}, 0, time.Time{}); err != nil {
				t.Fatal(err)
			}
		}
		at, err := st.Append(context.Background(), journal.Batch{Entries: []journal.Entry{e}})
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	before := write("as", "before", 0, false)
	feed := st.Feed(func(e *state.Event) bool { return e.Last().Key.Resource.Resource != "noise" })
	events, wait := feed.Take()
	if len(events) != 0 {
		t.Fatalf("events before the feed: %v", events)
	}
	var want []string
	for i := range 3 {
		at := write("as", fmt.Sprint(i), 0, false)
		want = append(want, fmt.Sprint(at, " ", i))
		write("noise", fmt.Sprint(i), 0, false)
	}
	want = append(want, fmt.Sprint(write("as", "before", before, true), " before"))
	select {
	case <-wait:
	default:
		t.Fatal("the feed has not woken its reader")
	}
	events, _ = feed.Take()
	var got []string
	for _, e := range events {
		got = append(got, fmt.Sprint(e.Revision, " ", e.Last().Key.Name))
	}
	if !slices.Equal(got, want) {
		t.Errorf("events %q, want %q", got, want)
	}
	feed.Close()
	write("as", "after", 0, false)
	if events, _ := feed.Take(); len(events) != 0 {
		t.Errorf("events after Close: %v", events)
	}
}
