package state

import (
	"context"
	"slices"
	"time"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/object"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Limits on the snapshots that a State keeps after it had to read history for them, so that the
// next page of a list need not read it again. The newest is kept whatever its size, the others
// within Options.HistoryBytes.
const (
	maxRebuilt  = 4
	rebuiltLife = time.Minute // after the last use, checked at the next write
)

// A rebuilt is a snapshot at an older revision. Only the holder of the state's slot for rebuilding
// copies its tree.
type rebuilt struct {
	resource schema.GroupResource
	Snapshot
	bytes int // of all its objects, of which it may hold the last reference
	used  time.Time
}

// rebuild makes a snapshot at a revision that history in memory does not reach. Only one call at a
// time does so, because it reads and decodes up to the whole history in the journal; a call that
// waited for the same revision finds the result.
func (s *State) rebuild(ctx context.Context, resource schema.GroupResource, at object.Revision) (Snapshot, error) {
	select {
	case s.rebuilding <- struct{}{}:
	case <-ctx.Done():
		return Snapshot{}, ctx.Err()
	}
	defer func() { <-s.rebuilding }()

	snap := s.above(resource, at)
	switch {
	case at < s.oldest(resource): // may still be kept, but was compacted in the meantime
		return Snapshot{}, journal.ErrCompacted
	case snap.Revision > at:
		if err := s.undo(ctx, resource, at, snap); err != nil {
			return Snapshot{}, err
		}
		snap.Revision = at
		s.keep(resource, snap)
	}
	return Snapshot{Revision: at, objects: snap.objects.Copy()}, nil
}

// above returns a snapshot at the revision, or at the lowest later one that needs no history from
// the journal.
func (s *State) above(resource schema.GroupResource, at object.Revision) Snapshot {
	s.mu.Lock()
	t := s.mu.tables[resource]
	if t == nil { // nothing in memory; the journal may have deleted objects
		t = newTable(s.mu.since)
	}
	from := max(at, t.evicted)
	nearest := -1
	for i, k := range s.mu.rebuilt {
		if k.resource == resource && at <= k.Revision && k.Revision <= from {
			from, nearest = k.Revision, i
		}
	}
	if nearest >= 0 {
		defer s.mu.Unlock()
		k := s.mu.rebuilt[nearest]
		k.used = time.Now()
		copy(s.mu.rebuilt[1:], s.mu.rebuilt[:nearest])
		s.mu.rebuilt[0] = k
		return Snapshot{Revision: k.Revision, objects: k.objects.Copy()}
	}
	snap := Snapshot{Revision: from, objects: t.objects.Copy()}
	newer := append([]Event(nil), t.history[t.after(from):]...)
	s.mu.Unlock()
	snap.undo(newer, map[object.Key]struct{}{})
	return snap
}

// undo reverts a snapshot to an older revision with the history in the journal.
func (s *State) undo(ctx context.Context, resource schema.GroupResource, at object.Revision, snap Snapshot) error {
	if u, ok := s.journal.(journal.Undoer); ok {
		return u.Undo(ctx, resource, at, snap.Revision, snap.put)
	}
	undone := map[object.Key]struct{}{}
	for upTo := snap.Revision; ; {
		older, err := s.readBack(ctx, resource, at, upTo, maxBatch)
		if err != nil {
			return err
		}
		snap.undo(older, undone)
		if len(older) < maxBatch {
			return nil
		}
		at = older[len(older)-1].Revision
	}
}

// keep keeps a snapshot for the next request.
func (s *State) keep(resource schema.GroupResource, snap Snapshot) {
	k := &rebuilt{resource: resource, Snapshot: snap, used: time.Now()}
	for o := range snap.All("") {
		k.bytes += o.Size()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	all, bytes := []*rebuilt{k}, k.bytes
	for _, other := range s.mu.rebuilt { // most recently used first
		if bytes += other.bytes; bytes > s.historyBytes || len(all) == maxRebuilt {
			break
		}
		all = append(all, other)
	}
	s.mu.rebuilt = all
}

// expireLocked drops snapshots that no request has used for rebuiltLife.
func (s *State) expireLocked() {
	if len(s.mu.rebuilt) == 0 {
		return
	}
	now := time.Now()
	s.mu.rebuilt = slices.DeleteFunc(s.mu.rebuilt, func(k *rebuilt) bool { return now.Sub(k.used) > rebuiltLife })
}
