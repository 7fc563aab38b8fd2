// Package memory has journals without a disk: a write is committed when it is applied. They are for
// tests and for control planes whose state need not outlive the process.
//
// A [Journal] stores nothing, and has no history beyond the events that the state machine holds in
// memory. A [Kept] writes to a [Store], which lives as long as it is referenced. Neither starts a
// goroutine.
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

// History implements [journal.Journal]. There is no history, so only the empty range behind the
// newest revision is complete.
func (j *Journal) History(_ context.Context, _ schema.GroupResource, after, upTo object.Revision, _ int) ([]journal.Record, error) {
	if err := j.Err(); err != nil {
		return nil, err
	}
	if after < upTo {
		return nil, journal.ErrCompacted
	}
	return nil, nil
}

// KeepsHistory implements [journal.Journal].
func (j *Journal) KeepsHistory() bool { return false }

// Compacted implements [journal.Journal]: every commit counts as compacted at once.
func (j *Journal) Compacted() object.Revision {
	head, _ := j.Head()
	return head
}

// Compact implements [journal.Journal]; there is nothing to compact.
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
