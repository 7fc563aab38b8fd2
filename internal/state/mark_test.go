package state

import (
	"errors"
	"testing"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/journal/memory"
	"github.com/kapok-dev/kapok/internal/object"
)

// TestMark: every change of a resource's objects changes its mark, and not the marks of others.
func TestMark(t *testing.T) {
	j := memory.New()
	s, err := Open(t.Context(), j, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	key := object.Key{Resource: pods, Namespace: "n", Name: "x"}
	mark, other := s.Mark(pods), s.Mark(nodes)
	if mark.Load() != 0 {
		t.Errorf("at first: %d", mark.Load())
	}
	write := func(o *object.Object) func() {
		return func() {
			entry := journal.Entry{Key: key, Object: o, Prev: s.revision(key)}
			if _, err := s.Append(t.Context(), journal.Batch{Entries: []journal.Entry{entry}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	rebased := newObject(t, key, "z")
	rebased.Revision = 10
	for _, step := range []struct {
		name string
		do   func()
	}{
		{"create", write(newObject(t, key, "x"))},
		{"update", write(newObject(t, key, "y"))},
		{"delete", write(nil)},
		{"rebase", func() {
			(*sink)(s).Rebase([]journal.Entry{{Key: key, Revision: 10, Object: rebased}}, 10)
		}},
		{"unreadable", func() { (*sink)(s).Unreadable(key, errors.New("no key")) }},
		{"readable", func() { (*sink)(s).Unreadable(key, nil) }},
	} {
		before := mark.Load()
		step.do()
		if mark.Load() == before {
			t.Errorf("%s has left the mark as it was", step.name)
		}
		if s.Mark(pods) != mark {
			t.Errorf("%s has replaced the mark", step.name)
		}
	}
	if other.Load() != 0 {
		t.Errorf("of another resource: %d", other.Load())
	}
}
