package memory

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/object"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// DefaultKeep is the default size of a [Store]'s history: 32 MiB, as much as a state keeps.
const DefaultKeep = 32 << 20

// A Store outlives the journals that are opened on it, as a disk does: a journal contains what
// earlier ones have committed. A test can stop a server and start another one on the same state. A
// Store is safe for concurrent use.
type Store struct {
	mu        sync.Mutex
	open      bool // a journal is open on it
	keep      int  // limit on bytes
	live      map[object.Key]*object.Object
	log       []commit // ascending by revision, all above compacted
	bytes     int      // of log
	head      object.Revision
	compacted object.Revision
	secrets   map[string][]byte
}

// A commit is an entry, the object it replaced, and its time.
type commit struct {
	journal.Record
	at time.Time
}

// NewStore returns an empty Store.
func NewStore() *Store {
	return &Store{live: map[object.Key]*object.Object{}, secrets: map[string][]byte{}}
}

// Open opens a journal on the store, which keeps the given number of bytes of history; 0 means
// DefaultKeep. Only one journal can be open: Open returns [journal.ErrLocked] until the other is
// closed.
func (s *Store) Open(keep int) (*Kept, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open {
		return nil, journal.ErrLocked
	}
	s.open, s.keep = true, cmp.Or(keep, DefaultKeep)
	return &Kept{store: s}, nil
}

// Shared returns the secret that all servers on the store share under a name. The first call
// creates it with make.
func (s *Store) Shared(name string, make func() ([]byte, error)) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if secret := s.secrets[name]; secret != nil {
		return secret, nil
	}
	secret, err := make()
	if err == nil {
		s.secrets[name] = secret
	}
	return secret, err
}

// Head returns the revision of the newest commit.
func (s *Store) Head() object.Revision {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.head
}

// Compact drops the history up to and including a revision.
func (s *Store) Compact(upTo object.Revision) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.compactLocked(upTo)
}

func (s *Store) compactLocked(upTo object.Revision) {
	n := s.afterLocked(upTo)
	for i := range s.log[:n] {
		s.bytes -= s.log[i].Size()
	}
	s.log = slices.Delete(s.log, 0, n)
	s.compacted = max(s.compacted, min(upTo, s.head))
}

// afterLocked returns the index of the first commit with a revision above r.
func (s *Store) afterLocked(r object.Revision) int {
	return sort.Search(len(s.log), func(i int) bool { return s.log[i].Revision > r })
}

// Changes returns the revisions, newest first, of the commits to objects of one resource that are
// after a revision and not older than since. A namespace or name other than "" restricts the
// result.
func (s *Store) Changes(of object.Key, after object.Revision, since time.Time) (revisions []object.Revision) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range slices.Backward(s.log) {
		if c.Revision <= after || c.at.Before(since) {
			break
		}
		if c.Key.Resource == of.Resource && (of.Namespace == "" || c.Key.Namespace == of.Namespace) && (of.Name == "" || c.Key.Name == of.Name) {
			revisions = append(revisions, c.Revision)
		}
	}
	return revisions
}

// write commits entries.
func (s *Store) write(entries []journal.Entry) error {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range entries {
		s.log = append(s.log, commit{journal.Record{Entry: e, Replaced: s.live[e.Key]}, now})
		s.bytes += e.Size()
		s.head = e.Revision
		if e.Object != nil {
			s.live[e.Key] = e.Object
		} else {
			delete(s.live, e.Key)
		}
	}
	if s.bytes > s.keep { // a quarter at once, because the log is copied
		s.compactLocked(s.log[len(s.log)/4].Revision)
	}
	return nil
}

// restored returns the entries to recover: the objects from before the history, then the history.
func (s *Store) restored() (entries []journal.Entry, head, compacted object.Revision) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := map[object.Key]bool{}
	add := func(o *object.Object) {
		if o != nil && !seen[o.Key] {
			entries = append(entries, journal.Entry{Key: o.Key, Revision: o.Revision, Object: o})
		}
	}
	for _, c := range s.log { // the object that its first change has replaced
		add(c.Replaced)
		seen[c.Key] = true
	}
	for _, o := range s.live {
		add(o)
	}
	slices.SortFunc(entries, func(a, b journal.Entry) int { return cmp.Compare(a.Revision, b.Revision) })
	for _, c := range s.log {
		entries = append(entries, c.Entry)
	}
	return entries, s.head, s.compacted
}

// historyLocked iterates over the commits of one resource in (after, upTo].
func (s *Store) historyLocked(resource schema.GroupResource, after, upTo object.Revision) iter.Seq[journal.Record] {
	return func(yield func(journal.Record) bool) {
		for _, c := range s.log[s.afterLocked(after):] {
			if c.Revision > upTo || c.Key.Resource == resource && !yield(c.Record) {
				return
			}
		}
	}
}

// Kept is a journal on a [Store]: the next journal on the same Store finds its commits.
type Kept struct {
	*journal.Sequencer
	store *Store
	close sync.Once
}

// Recover implements [journal.Journal].
func (j *Kept) Recover(_ context.Context, sink journal.Sink) error {
	entries, head, compacted := j.store.restored()
	bytes := int64(0)
	for i := range entries {
		if entries[i].Revision > compacted {
			bytes += int64(entries[i].Size())
		}
		sink.Restore(entries[i])
	}
	j.Sequencer = journal.NewSequencer(sink, head, bytes, j.store.write)
	sink.Restored(head, compacted)
	return nil
}

// History implements [journal.Journal].
func (j *Kept) History(_ context.Context, resource schema.GroupResource, after, upTo object.Revision, limit int) ([]journal.Record, error) {
	if err := j.Err(); err != nil {
		return nil, err
	}
	s := j.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if after < s.compacted && after < upTo {
		return nil, journal.ErrCompacted
	}
	var records []journal.Record
	for r := range s.historyLocked(resource, after, upTo) {
		records = append(records, r)
		if len(records) == limit {
			break
		}
	}
	return records, nil
}

// KeepsHistory implements [journal.Journal].
func (j *Kept) KeepsHistory() bool { return true }

// Compacted implements [journal.Journal].
func (j *Kept) Compacted() object.Revision {
	j.store.mu.Lock()
	defer j.store.mu.Unlock()
	return j.store.compacted
}

// Compact implements [journal.Journal].
func (j *Kept) Compact(_ context.Context, upTo object.Revision) error {
	if err := j.Err(); err != nil {
		return err
	}
	j.store.Compact(upTo)
	return nil
}

// Check implements [journal.Journal]. Memory is not checked for damage.
func (j *Kept) Check(context.Context) (journal.Report, error) {
	if err := j.Err(); err != nil {
		return journal.Report{}, err
	}
	s := j.store
	s.mu.Lock()
	defer s.mu.Unlock()
	entries := len(s.live)
	for _, c := range s.log {
		if s.live[c.Key] != c.Object || c.Object == nil {
			entries++
		}
	}
	return journal.Report{Head: s.head, Compacted: s.compacted, Objects: len(s.live), Records: entries, Bytes: int64(s.bytes)}, nil
}

// Close implements [journal.Journal].
func (j *Kept) Close() error {
	j.close.Do(func() {
		if j.Sequencer != nil {
			j.Sequencer.Close()
		}
		j.store.mu.Lock()
		defer j.store.mu.Unlock()
		j.store.open = false
	})
	return nil
}
