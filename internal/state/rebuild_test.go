package state

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/journal/memory"
	"github.com/kapok-dev/kapok/internal/object"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// readJournal records which history is read, and waits for gate first if it is set.
type readJournal struct {
	journal.Journal
	reads atomic.Int64
	upTo  atomic.Int64 // of the first call of the last read
	gate  chan struct{}
}

func (j *readJournal) History(ctx context.Context, resource schema.GroupResource, after, upTo object.Revision, limit int) ([]journal.Record, error) {
	j.reads.Add(1)
	j.upTo.Store(int64(upTo))
	if j.gate != nil {
		select {
		case <-j.gate:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return j.Journal.History(ctx, resource, after, upTo, limit)
}

// longHistory returns a state with one object that was written as often as its revision says, and
// with little history in memory.
func longHistory(t *testing.T, writes int) (*State, *readJournal) {
	t.Helper()
	inner, err := memory.NewStore().Open(0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { inner.Close() })
	j := &readJournal{Journal: inner}
	s, err := Open(t.Context(), j, Options{HistoryBytes: 4 << 10})
	if err != nil {
		t.Fatal(err)
	}
	for range writes {
		write(t, s)
	}
	return s, j
}

func write(t *testing.T, s *State) {
	t.Helper()
	k := object.Key{Resource: nodes, Name: "a"}
	e := journal.Entry{Key: k}
	if o, _ := s.Get(k); o != nil {
		e.Prev = o.Revision
	}
	e.Object = newObject(t, k, strings.Repeat("x", 200))
	if _, err := s.Append(t.Context(), journal.Batch{Entries: []journal.Entry{e}}); err != nil {
		t.Fatal(err)
	}
}

func mustBeAt(t *testing.T, s *State, at object.Revision) {
	t.Helper()
	snap, err := s.SnapshotAt(t.Context(), nodes, at)
	if err != nil {
		t.Fatal(err)
	}
	if o := snap.Get("", "a"); o == nil || o.Revision != at || snap.Revision != at {
		t.Fatalf("at revision %d the object is %v", at, o)
	}
}

// TestRebuiltSnapshotIsKept lists old revisions page by page: history is read for the first page
// only, and for an older revision only from the nearest snapshot.
func TestRebuiltSnapshotIsKept(t *testing.T) {
	s, j := longHistory(t, 400)
	for range 10 {
		mustBeAt(t, s, 200)
	}
	if n := j.reads.Load(); n != 1 {
		t.Errorf("ten pages read history %d times, want 1", n)
	}
	mustBeAt(t, s, 150)
	if upTo := j.upTo.Load(); upTo != 200 {
		t.Errorf("for revision 150 history was read up to %d, want 200, which was kept", upTo)
	}
	before := j.reads.Load()
	for at := object.Revision(150); at <= 300; at += 10 {
		mustBeAt(t, s, at)
		write(t, s)
	}
	if j.reads.Load() == before {
		t.Error("nothing was read for revisions above those that are kept")
	}
	if n := len(s.mu.rebuilt); n > maxRebuilt {
		t.Errorf("%d snapshots are kept, want %d at most", n, maxRebuilt)
	}
	if err := s.Compact(t.Context(), s.Revision()); err != nil {
		t.Fatal(err)
	}
	for _, at := range []object.Revision{150, 300} {
		if _, err := s.SnapshotAt(t.Context(), nodes, at); !errors.Is(err, journal.ErrCompacted) {
			t.Errorf("revision %d after compaction: %v", at, err)
		}
	}
}

// TestRebuiltSnapshotsAreBounded: kept snapshots stay within the limit on history, except the
// newest one.
func TestRebuiltSnapshotsAreBounded(t *testing.T) {
	s, _ := longHistory(t, 400)
	s.historyBytes = 1
	for at := object.Revision(100); at < 110; at++ {
		mustBeAt(t, s, at)
		if n := len(s.mu.rebuilt); n != 1 {
			t.Fatalf("%d snapshots are kept, want 1", n)
		}
	}
}

// TestRebuiltSnapshotExpires: a snapshot that is not used for a while is dropped.
func TestRebuiltSnapshotExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := longHistory(t, 400)
		mustBeAt(t, s, 100)
		time.Sleep(rebuiltLife)
		mustBeAt(t, s, 100)
		time.Sleep(rebuiltLife)
		write(t, s)
		if len(s.mu.rebuilt) != 1 {
			t.Error("a snapshot was dropped too early")
		}
		time.Sleep(time.Second)
		write(t, s)
		if len(s.mu.rebuilt) != 0 {
			t.Error("a snapshot is kept that is not used")
		}
	})
}

// TestOneRebuildAtATime requests old revisions concurrently: one request at a time reads history,
// once for each revision, and a request whose context has ended does not.
func TestOneRebuildAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, j := longHistory(t, 400)
		j.gate = make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		var asking sync.WaitGroup
		for range 20 {
			asking.Go(func() { mustBeAt(t, s, 100) })
		}
		synctest.Wait()
		if n := j.reads.Load(); n != 1 {
			t.Errorf("%d requests read history at the same time", n)
		}
		var gone sync.WaitGroup
		for i := range 20 {
			gone.Go(func() {
				if _, err := s.SnapshotAt(ctx, nodes, object.Revision(101+i)); !errors.Is(err, context.Canceled) {
					t.Error(fmt.Errorf("a request whose client has left: %w", err))
				}
			})
		}
		synctest.Wait()
		cancel()
		gone.Wait()
		close(j.gate)
		asking.Wait()
		if n := j.reads.Load(); n != 1 {
			t.Errorf("history was read %d times for one revision", n)
		}
	})
}
