// Package state is the state machine: the fold of a journal, in memory.
//
// A [State] holds every object of a store. Reads never block writes for long and return committed
// revisions only. For each resource it keeps
//
//   - an index of the live objects, a copy-on-write B-tree ordered by namespace
//     and name, so that taking a [Snapshot] is cheap; label sketches in the index
//     exclude most objects that a selector does not match without access to them;
//   - a history: the events of that resource, oldest first, within the limit on
//     memory. Evicted events are read back from the journal.
//
// A watcher is a [Cursor] into the history, not a buffer of its own. A snapshot at an older
// revision is the newest one with all later events reverted. Across resources the State keeps an
// index of dependents by the uid of their owner.
//
// One lock guards all of it: write-locked while entries are applied, read-locked while a reader
// looks up its object, tree or events; nothing is decoded or encoded under it. The package starts
// no goroutine.
package state

import (
	"context"
	"sync"
	"time"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/object"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// DefaultHistoryBytes is the default of Options.HistoryBytes: 32 MiB.
const DefaultHistoryBytes = 32 << 20

// State is the fold of a journal. Create one with [Open].
type State struct {
	journal      journal.Journal
	historyBytes int
	stale        func(*object.Object) bool
	rebuilding   chan struct{} // a semaphore of one, held while a snapshot is rebuilt
	historyAge   time.Duration // 0 means no limit

	mu struct {
		sync.RWMutex
		head       object.Revision // the newest visible revision
		since      object.Revision // recovery returned the complete history after this revision
		forgotten  object.Revision // history up to here is compacted in memory; the journal may have compacted more
		ages       ages            // of the history, if historyAge is set
		tables     map[schema.GroupResource]*table
		owners     owners
		bytes      int           // of all histories
		changed    chan struct{} // closed at the next revision; nil if no reader waits
		feeds      []*Feed
		rebases    int                  // number of rebases so far
		unreadable map[object.Key]error // nil if all objects can be read
		rebuilt    []*rebuilt           // most recently used first
	}
}

// Options are the settings of a State. Zero values mean the defaults.
type Options struct {
	// HistoryBytes limits the bytes of events in memory. Default DefaultHistoryBytes.
	HistoryBytes int
	// HistoryAge is the minimum time that an event stays readable; it is dropped soon after. Set it
	// for journals without a Compactor. Default 0: as long as HistoryBytes and the journal allow.
	HistoryAge time.Duration
	// Stale reports whether the stored form of an object is outdated, in addition to objects whose
	// Stale field is set. Default nil: none.
	Stale func(*object.Object) bool
}

// Open recovers the state from a journal. The caller owns the journal and closes it after the State
// is no longer used.
func Open(ctx context.Context, j journal.Journal, opts Options) (*State, error) {
	s := &State{
		journal: j, historyBytes: opts.HistoryBytes, historyAge: opts.HistoryAge, stale: opts.Stale,
		rebuilding: make(chan struct{}, 1),
	}
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

// Sync returns when the state includes everything that was committed before the call by any
// process, and whether other processes may commit to the journal; see [journal.Journal].
func (s *State) Sync(ctx context.Context) (shared bool, err error) { return s.journal.Sync(ctx) }

// Stale reports whether the stored form of an object is outdated: a write that changes nothing is
// still worth storing.
func (s *State) Stale(o *object.Object) bool { return o.Stale || s.stale != nil && s.stale(o) }

// Check reads everything that the journal stores; see [journal.Journal].
func (s *State) Check(ctx context.Context) (journal.Report, error) { return s.journal.Check(ctx) }

// Health returns nil if the journal accepts writes; see [journal.Journal].
func (s *State) Health() error { return s.journal.Health() }

// Revision returns the newest visible revision.
func (s *State) Revision() object.Revision {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.mu.head
}

// Get returns the object under a key, or nil if there is none, and the revision of the state at
// that moment.
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

// Size returns the number of live objects of a resource, and the size of their stored form in
// bytes.
func (s *State) Size(resource schema.GroupResource) (objects int, bytes int64) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if t := s.mu.tables[resource]; t != nil {
		return t.objects.Len(), t.size
	}
	return 0, 0
}

// Resources returns the resources that have live objects, in no particular order.
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

// sink is the interface of a State to its journal.
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
	s.mu.ages.record(s.mu.head, s.historyAge)
	s.boundLocked()
	s.expireLocked()
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

// Rebase replaces objects without the history in between: cursors behind head get ErrCompacted.
// Feeds get an event for every change.
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
	s.mu.rebuilt = nil
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

// boundLocked keeps the history within the limit on memory. It evicts from the resource with the
// most history, so that a busy kind evicts its own events only.
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

// Head returns the newest committed revision, and the bytes written up to it; see
// [journal.Journal].
func (s *State) Head() (object.Revision, int64) { return s.journal.Head() }

// Compacted returns the revision up to which the history of all resources is compacted, even if
// memory or the journal still hold some of it: a list or a watch of an older revision returns
// [journal.ErrCompacted]. A running watch continues unless it has missed events.
func (s *State) Compacted() object.Revision {
	compacted := s.compactedByJournal()
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.compactedLocked(compacted)
}

// compactedByJournal must be called without the lock: a journal may wait for it.
func (s *State) compactedByJournal() object.Revision {
	if !s.journal.KeepsHistory() {
		return 0
	}
	return s.journal.Compacted()
}

func (s *State) compactedLocked(byJournal object.Revision) object.Revision {
	compacted := max(byJournal, s.mu.forgotten, s.mu.ages.expired(s.historyAge))
	return min(compacted, s.mu.head) // a shared journal may be ahead of this state
}

// Compact drops the history up to a revision, in memory and in the journal; all of it if upTo is
// above the newest revision.
func (s *State) Compact(ctx context.Context, upTo object.Revision) error {
	upTo = min(upTo, s.Revision())
	if err := s.journal.Compact(ctx, upTo); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.forgotten = max(s.mu.forgotten, upTo)
	s.mu.rebuilt = nil
	for _, t := range s.mu.tables {
		s.mu.bytes -= t.forget(upTo)
	}
	return nil
}
