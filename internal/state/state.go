// Package state is the state machine: the fold of a journal, in memory.
//
// A [State] holds every object of a store. Reads never block writes for long and
// see committed revisions only. For each resource it keeps
//
//   - an index of the live objects, a copy-on-write B-tree ordered by namespace
//     and name, so that a [Snapshot] costs nothing; it knows enough of labels to
//     pass over most objects that a selector does not want without a look at them;
//   - a history: the events of that resource, oldest first, as far as the bound on
//     memory allows. What falls out of memory is read back from the journal.
//
// A watcher is a [Cursor] into the history, not a buffer of its own. A snapshot
// at an older revision is the newest one with the history since then undone.
// Across resources it keeps an index of dependents by the uid of their owner.
//
// One lock guards all of it: write-held while entries are applied, read-held
// while a reader finds its object, tree or events; nothing is decoded or encoded
// under it. The package starts no goroutine.
package state

import (
	"context"
	"sync"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/object"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// DefaultHistoryBytes bounds the memory that history takes, in bytes, unless
// told otherwise.
const DefaultHistoryBytes = 32 << 20

// State is the fold of a journal. Make one with [Open].
type State struct {
	journal      journal.Journal
	historyBytes int
	stale        func(*object.Object) bool

	mu struct {
		sync.RWMutex
		head       object.Revision // the newest revision that is visible
		since      object.Revision // what was recovered is the whole history after it
		tables     map[schema.GroupResource]*table
		owners     owners
		bytes      int           // of all histories
		changed    chan struct{} // closed at the next revision; nil if nobody waits
		feeds      []*Feed
		rebases    int                  // so far
		unreadable map[object.Key]error // nil if all can be read
	}
}

// Options are the settings of a State; zero values mean the defaults.
type Options struct {
	// HistoryBytes bounds the events in memory. Default DefaultHistoryBytes.
	HistoryBytes int
	// Stale says whether an object is stored in a way that is no longer wanted, besides
	// those that say so themselves. Default: none is.
	Stale func(*object.Object) bool
}

// Open recovers the state from a journal. The journal is the caller's to close.
func Open(ctx context.Context, j journal.Journal, opts Options) (*State, error) {
	s := &State{journal: j, historyBytes: opts.HistoryBytes, stale: opts.Stale}
	if s.historyBytes <= 0 {
		s.historyBytes = DefaultHistoryBytes
	}
	s.mu.tables = map[schema.GroupResource]*table{}
	s.mu.owners = owners{}
	if err := j.Recover(ctx, (*sink)(s)); err != nil {
		return nil, err
	}
	return s, nil
}

// Append commits a batch to the journal; see [journal.Journal].
func (s *State) Append(ctx context.Context, b journal.Batch) (object.Revision, error) {
	return s.journal.Append(ctx, b)
}

// Sync returns when the state holds everything that anybody had committed before
// the call, and whether there may be others who commit; see [journal.Journal].
func (s *State) Sync(ctx context.Context) (shared bool, err error) { return s.journal.Sync(ctx) }

// Stale says whether an object is stored in a way that is no longer wanted: a write
// that changes nothing is worth while then.
func (s *State) Stale(o *object.Object) bool { return o.Stale || s.stale != nil && s.stale(o) }

// Check reads all that the journal stores; see [journal.Journal].
func (s *State) Check(ctx context.Context) (journal.Report, error) { return s.journal.Check(ctx) }

// Health says whether writes are taken; see [journal.Journal].
func (s *State) Health() error { return s.journal.Health() }

// Revision returns the newest visible revision.
func (s *State) Revision() object.Revision {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.mu.head
}

// Get returns the object under a key, nil if there is none, and the revision of
// the state in which that is so.
func (s *State) Get(key object.Key) (*object.Object, object.Revision) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	t := s.mu.tables[key.Resource]
	if t == nil {
		return nil, s.mu.head
	}
	found, _ := t.objects.Get(at(key.Namespace, key.Name))
	return found.Object, s.mu.head
}

// Count returns the number of live objects of a resource.
func (s *State) Count(resource schema.GroupResource) int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if t := s.mu.tables[resource]; t != nil {
		return t.objects.Len()
	}
	return 0
}

// Resources returns the resources that have live objects, in no order.
func (s *State) Resources() []schema.GroupResource {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var all []schema.GroupResource
	for r, t := range s.mu.tables {
		if t.objects.Len() > 0 {
			all = append(all, r)
		}
	}
	return all
}

// Dependents returns the keys of the live objects that name uid as an owner.
func (s *State) Dependents(uid types.UID) []object.Key {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.mu.owners.of(uid)
}

// All returns the newest objects of all resources, at one revision.
func (s *State) All() (object.Revision, []Snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Snapshot
	for _, t := range s.mu.tables {
		if t.objects.Len() > 0 {
			all = append(all, Snapshot{Revision: s.mu.head, objects: t.objects.Copy()})
		}
	}
	return s.mu.head, all
}

func (s *State) tableLocked(resource schema.GroupResource) *table {
	t := s.mu.tables[resource]
	if t == nil {
		t = newTable(s.mu.since)
		s.mu.tables[resource] = t
	}
	return t
}

// sink is the side of a State that its journal sees.
type sink State

func (k *sink) Revision(key object.Key) object.Revision {
	if o, _ := (*State)(k).Get(key); o != nil {
		return o.Revision
	}
	return 0
}

func (k *sink) Apply(entries []journal.Entry) {
	s := (*State)(k)
	wake(s.apply(entries))
}

// apply returns the channels to close.
func (s *State) apply(entries []journal.Entry) (changed []chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range entries {
		e := &entries[i]
		t := s.tableLocked(e.Key.Resource)
		event := t.put(e)
		s.mu.owners.move(e.Key, event.Prev, e.Object)
		s.mu.bytes += t.record(event)
		for _, f := range s.mu.feeds {
			f.offerLocked(event)
		}
		changed = t.renew(changed)
		s.mu.head = e.Revision
	}
	s.boundLocked()
	return s.renewLocked(changed)
}

func (k *sink) Restore(e journal.Entry) {
	s := (*State)(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tableLocked(e.Key.Resource)
	event := t.put(&e)
	s.mu.owners.move(e.Key, event.Prev, e.Object)
	s.mu.bytes += t.record(event)
	s.boundLocked()
}

// Rebase changes what is there, with no history of how it came: cursors that stand
// before head find that it has been compacted. Feeds hear of every change.
func (k *sink) Rebase(entries []journal.Entry, head object.Revision) {
	wake((*State)(k).rebase(entries, head))
}

func (s *State) rebase(entries []journal.Entry, head object.Revision) (changed []chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range entries {
		e := &entries[i]
		event := s.tableLocked(e.Key.Resource).put(e)
		event.Revision = head
		s.mu.owners.move(e.Key, event.Prev, e.Object)
		for _, f := range s.mu.feeds {
			f.offerLocked(event)
		}
	}
	s.mu.head, s.mu.since = head, head
	s.mu.rebases++
	for _, t := range s.mu.tables {
		s.mu.bytes -= t.evict(head)
		changed = t.renew(changed)
	}
	return s.renewLocked(changed)
}

func (k *sink) Unreadable(key object.Key, why error) {
	wake((*State)(k).setUnreadable(key, why))
}

func (k *sink) Restored(head, since object.Revision) {
	s := (*State)(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.head, s.mu.since = head, since
	for _, t := range s.mu.tables {
		s.mu.bytes -= t.evict(since)
	}
}

// boundLocked keeps histories within the bound on memory. The resource with the
// most history pays: a noisy kind evicts itself.
func (s *State) boundLocked() {
	for s.mu.bytes > s.historyBytes {
		var most *table
		for _, t := range s.mu.tables {
			if most == nil || t.bytes > most.bytes {
				most = t
			}
		}
		freed := most.evictBytes(most.bytes / 8)
		if freed == 0 {
			return
		}
		s.mu.bytes -= freed
	}
}

// Compact forgets all history up to now, in memory and in the journal: from then
// on a watch, or a list, of an older revision is a [journal.ErrCompacted].
func (s *State) Compact(ctx context.Context) error {
	head := s.Revision()
	if err := s.journal.Compact(ctx, head); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.since = max(s.mu.since, head)
	for _, t := range s.mu.tables {
		s.mu.bytes -= t.evict(head)
	}
	return nil
}
