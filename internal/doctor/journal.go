package doctor

import (
	"context"
	"errors"
	"time"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/object"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// journal reads all that the journal stores, and compares it with the state.
func (e *examination) journal() error {
	stored, known, shown, err := e.stored()
	if err != nil {
		return err
	}
	e.report.Compacted, e.report.Records, e.report.Bytes = stored.Compacted, stored.Records, stored.Bytes
	e.report.Archived, e.report.ArchivedBytes = stored.Archived, stored.ArchivedBytes
	e.report.AddAll(stored.Problems)
	if known && shown != stored.Objects {
		e.problem(object.Key{}, 0, "the journal has %d objects at revision %d, but the server has %d", stored.Objects, stored.Head, shown)
	}
	return nil
}

// stored returns the report of the journal, and the number of objects in the state
// at the same revision, as far as it is known. If the two differ it reads them
// again: the journal gets a commit before the state does, or after; a resource may
// have been created and deleted in between, with its history.
//
// That the journal is ahead for good is not asked by revision: that of etcd moves
// with whatever else is written there.
func (e *examination) stored() (stored journal.Report, known bool, shown int, err error) {
	before := e.state.Revision()
	for try := range patience {
		if try > 0 {
			e.pause()
		}
		resources := e.state.Resources()
		if stored, err = e.state.Check(e.ctx); err != nil {
			return stored, false, 0, err
		}
		if stored.Head < before {
			continue
		}
		if err := e.catchUp(); err != nil {
			e.problem(object.Key{}, 0, "the journal is at revision %d, but the server at %d: %v", stored.Head, e.state.Revision(), err)
			return stored, false, 0, e.ctx.Err()
		}
		if stored.Records == 0 && stored.Objects == 0 && stored.Compacted >= stored.Head {
			return stored, false, 0, nil // it keeps nothing
		}
		if shown, known, err = e.count(stored.Head, resources); err != nil || known && shown == stored.Objects {
			return stored, known, shown, err
		}
	}
	if stored.Head < before {
		e.problem(object.Key{}, 0, "the journal ends at revision %d, but the server has already served revision %d", stored.Head, before)
		return stored, false, 0, e.ctx.Err()
	}
	return stored, known, shown, nil
}

// catchUp waits until the state has reached the revision that the journal reported. A journal that
// rejects writes is reported elsewhere and does not make the state older.
func (e *examination) catchUp() error {
	ctx, cancel := context.WithTimeout(e.ctx, 10*time.Second)
	defer cancel()
	_, err := e.state.Sync(ctx)
	if errors.Is(err, journal.ErrUnavailable) {
		return nil
	}
	return err
}

// pause waits a moment, or until the examination is broken off.
func (e *examination) pause() {
	timer := time.NewTimer(50 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-e.ctx.Done():
	}
}

// count counts the objects of the state at a revision; known is false where that
// cannot be known any more.
func (e *examination) count(at object.Revision, resources []schema.GroupResource) (n int, known bool, err error) {
	all := map[schema.GroupResource]bool{}
	for _, resource := range append(resources, e.state.Resources()...) {
		all[resource] = true
	}
	for resource := range all {
		table, err := e.state.SnapshotAt(e.ctx, resource, at)
		if errors.Is(err, journal.ErrCompacted) {
			return 0, false, nil
		}
		if err != nil {
			return 0, false, err
		}
		n += table.Len()
	}
	return n, true, nil
}
