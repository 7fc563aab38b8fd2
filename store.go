package kapok

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/journal/memory"
	"github.com/kapok-dev/kapok/internal/journal/pebble"
	"github.com/kapok-dev/kapok/internal/state"
)

// store is the state of a server and the journal behind it.
type store struct {
	journal   journal.Journal
	state     *state.State
	compactor *journal.Compactor // nil where no history outlives its time in memory
}

// openStore opens what the data directory holds, or an empty store in memory.
func openStore(ctx context.Context, opts Options) (*store, error) {
	j, err := openJournal(opts)
	if err != nil {
		return nil, err
	}
	st, err := state.Open(ctx, j, state.Options{HistoryBytes: opts.HistoryMemory})
	if err != nil {
		return nil, errors.Join(err, j.Close())
	}
	s := &store{journal: j, state: st}
	if opts.DataDir != "" {
		policy := journal.Policy{Keep: opts.HistoryAge, KeepBytes: opts.HistoryDisk}
		s.compactor = journal.StartCompactor(context.WithoutCancel(ctx), j, policy, opts.Logger)
	}
	return s, nil
}

func openJournal(opts Options) (journal.Journal, error) {
	if opts.DataDir == "" {
		return memory.New(), nil
	}
	if err := os.MkdirAll(opts.DataDir, 0o700); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	j, err := pebble.Open(pebble.Options{Dir: filepath.Join(opts.DataDir, "journal"), Logger: opts.Logger})
	if errors.Is(err, journal.ErrLocked) {
		return nil, fmt.Errorf("another kapok is running on data directory %s: stop it, or choose another directory: %w",
			opts.DataDir, err)
	}
	return j, err
}

func (s *store) close() error {
	if s.compactor != nil {
		s.compactor.Close()
	}
	return s.journal.Close()
}
