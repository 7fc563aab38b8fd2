package memory_test

import (
	"errors"
	"testing"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/journal/journaltest"
	"github.com/kapok-dev/kapok/internal/journal/memory"

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

// TestNoHistory: what is asked for beyond the newest revision that the journal knows of may have been applied, and evicted,
// already; silence would be taken for completeness.
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
