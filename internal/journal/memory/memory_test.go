package memory_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/journal/journaltest"
	"github.com/kapok-dev/kapok/internal/journal/memory"
	"github.com/kapok-dev/kapok/internal/object"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestJournal(t *testing.T) {
	journaltest.Run(t, journaltest.Engine{
		New: func(*testing.T) func() (journal.Journal, error) {
			return func() (journal.Journal, error) { return memory.New(), nil }
		},
		Forgets: true,
	})
}

func TestKept(t *testing.T) {
	journaltest.Run(t, journaltest.Engine{
		New: func(*testing.T) func() (journal.Journal, error) {
			s := memory.NewStore()
			return func() (journal.Journal, error) { return s.Open(0) }
		},
	})
}

// TestOneAtATime: a store has one journal, until that is closed; secrets stay what they were first.
func TestOneAtATime(t *testing.T) {
	s := memory.NewStore()
	for _, secret := range []string{"first", "second"} {
		j, err := s.Open(0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Open(0); !errors.Is(err, journal.ErrLocked) {
			t.Errorf("opened twice: %v", err)
		}
		got, err := s.Shared("x", func() ([]byte, error) { return []byte(secret), nil })
		if err != nil || string(got) != "first" {
			t.Errorf("secret %q, %v", got, err)
		}
		j.Close()
		j.Close()
	}
}

// TestBound: the history has an end, and does not take what is live with it.
func TestBound(t *testing.T) {
	s := memory.NewStore()
	j, err := s.Open(4 << 20)
	if err != nil {
		t.Fatal(err)
	}
	twin := journaltest.NewTwin()
	if err := j.Recover(t.Context(), twin); err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	key := object.Key{Resource: schema.GroupResource{Resource: "x"}, Name: "a"}
	quiet := object.Key{Resource: schema.GroupResource{Resource: "x"}, Name: "quiet"}
	put := func(k object.Key, prev object.Revision, text string) object.Revision {
		o, err := object.New(k, map[string]any{"metadata": map[string]any{"name": k.Name, "uid": k.Name}, "text": text}, 0, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		at, err := j.Append(t.Context(), journal.Batch{Entries: []journal.Entry{{Key: k, Prev: prev, Object: o}}})
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	put(quiet, 0, "")
	at := object.Revision(0)
	for large := strings.Repeat("x", 100<<10); j.Compacted() == 0 && at < 100; {
		at = put(key, at, large)
	}
	if head, _ := j.Head(); j.Compacted() == 0 || j.Compacted() > head-20 {
		t.Errorf("compacted up to %d, head is %d", j.Compacted(), head)
	}
	changes := s.Changes(key, j.Compacted(), time.Time{})
	if records, err := j.History(t.Context(), key.Resource, j.Compacted(), at, 0); err != nil || len(records) != len(changes) || changes[0] != at {
		t.Errorf("%d records, %d changes, %v", len(records), len(changes), err)
	}
	if none := s.Changes(key, 0, time.Now().Add(time.Hour)); len(none) > 0 {
		t.Errorf("changes of the future: %v", none)
	}
	j.Close()
	if j, err = s.Open(0); err != nil {
		t.Fatal(err)
	}
	again := journaltest.NewTwin()
	if err := j.Recover(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	if err := twin.SameObjects(again); err != nil {
		t.Error(err)
	}
}

// TestNoHistory: entries after the newest revision that the journal knows may have been applied and
// evicted already, so that an empty result would be taken for a complete one.
func TestNoHistory(t *testing.T) {
	j := memory.New()
	if err := j.Recover(t.Context(), journaltest.NewTwin()); err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if records, err := j.History(t.Context(), schema.GroupResource{Resource: "x"}, 0, 1, 10); !errors.Is(err, journal.ErrCompacted) {
		t.Errorf("history of what is not kept: %v, %v", records, err)
	}
}
