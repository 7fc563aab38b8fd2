package memory_test

import (
	"testing"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/journal/journaltest"
	"github.com/kapok-dev/kapok/internal/journal/memory"

	"go.uber.org/goleak"
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
