package state

import (
	"errors"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/journal/memory"
	"github.com/kapok-dev/kapok/internal/object"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestHistoryBound: history in memory stays within its limit, and events of the busy resource are
// evicted.
func TestHistoryBound(t *testing.T) {
	const bound = 100_000
	j := memory.New()
	s, err := Open(t.Context(), j, Options{HistoryBytes: bound})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	write := func(resource schema.GroupResource) {
		k := object.Key{Resource: resource, Name: "a"}
		e := journal.Entry{Key: k, Object: newObject(t, k, strings.Repeat("x", 500))}
		if o, _ := s.Get(k); o != nil {
			e.Prev = o.Revision
		}
		if _, err := s.Append(t.Context(), journal.Batch{Entries: []journal.Entry{e}}); err != nil {
			t.Fatal(err)
		}
	}
	write(nodes)
	write(nodes)
	for range 1000 {
		write(pods)
	}
	if _, err := s.Watch(nodes, 0); err != nil {
		t.Errorf("the quiet resource has lost its history: %v", err)
	}
	var compacted *CompactedError
	if _, err := s.Watch(pods, 2); !errors.As(err, &compacted) || compacted.Wanted != 2 || compacted.Oldest <= 2 {
		t.Errorf("the noisy resource has all its history: %v", err)
	}
	kept := 0
	for _, t := range s.mu.tables {
		for i := range t.history {
			kept += t.history[i].size()
		}
	}
	if kept != s.mu.bytes || kept > bound || kept < bound/2 {
		t.Errorf("%d bytes of history, counted %d, bound %d", kept, s.mu.bytes, bound)
	}
}
