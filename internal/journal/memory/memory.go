// Package memory has the journals without a disk: a write is committed when it is
// applied. They are for tests and for control planes that may forget.
//
// A [Journal] keeps nothing, and has no history beyond what the state machine holds
// in memory. A [Kept] keeps what is written in a [Store], which lasts as long as somebody
// has it. Neither starts a goroutine.
package memory

import (
	"context"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/object"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Journal implements [journal.Journal] in memory.
type Journal struct {
	*journal.Sequencer
}

// New returns an empty journal.
func New() *Journal { return &Journal{} }

// Recover implements [journal.Journal]; there is nothing to read back.
func (j *Journal) Recover(_ context.Context, sink journal.Sink) error {
	j.Sequencer = journal.NewSequencer(sink, 0, 0, func([]journal.Entry) error { return nil })
	sink.Restored(0, 0)
	return nil
}

// History implements [journal.Journal]: there is none, so only what lies behind
// the newest revision is complete.
func (j *Journal) History(_ context.Context, _ schema.GroupResource, after, upTo object.Revision, _ int) ([]journal.Record, error) {
	if err := j.Err(); err != nil {
		return nil, err
	}
	if after < upTo {
		return nil, journal.ErrCompacted
	}
	return nil, nil
}

// Compacted implements [journal.Journal]: every commit is forgotten at once.
func (j *Journal) Compacted() object.Revision {
	head, _ := j.Head()
	return head
}

// Compact implements [journal.Journal]; there is nothing to forget.
func (j *Journal) Compact(context.Context, object.Revision) error { return j.Err() }

// Check implements [journal.Journal]; nothing is stored.
func (j *Journal) Check(context.Context) (journal.Report, error) {
	head, bytes := j.Head()
	return journal.Report{Head: head, Compacted: head, Bytes: bytes}, j.Err()
}

// Close implements [journal.Journal].
func (j *Journal) Close() error {
	if j.Sequencer != nil {
		j.Sequencer.Close()
	}
	return nil
}
