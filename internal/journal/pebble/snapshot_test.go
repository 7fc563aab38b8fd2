package pebble

import (
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/journal/journaltest"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// listGate is a disk that can be made to answer no sync of pebble's list of tables, which has the
// lock that is taken to close a snapshot.
type listGate struct {
	vfs.FS
	mu      sync.Mutex
	closed  chan struct{} // nil while it answers
	waiting bool
}

type listFile struct {
	vfs.File
	gate *listGate
}

func (g *listGate) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := g.FS.Create(name, c)
	if err != nil || !strings.HasPrefix(g.PathBase(name), "MANIFEST") {
		return f, err
	}
	return listFile{f, g}, nil
}

func (f listFile) Sync() error {
	f.gate.mu.Lock()
	closed := f.gate.closed
	f.gate.waiting = closed != nil
	f.gate.mu.Unlock()
	if closed != nil {
		<-closed
	}
	return f.File.Sync()
}

func (f listFile) SyncData() error { return f.Sync() }

// TestReadersOfHungDisk: while the disk hangs, readers of history neither wait, nor leave
// goroutines, nor snapshots without a bound; what they leave goes once the disk answers.
func TestReadersOfHungDisk(t *testing.T) {
	gate := &listGate{FS: vfs.NewMem()}
	j, err := Open(Options{Dir: "journal", FS: crashable{gate}, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	twin := journaltest.NewTwin()
	if err := j.Recover(t.Context(), twin); err != nil {
		t.Fatal(err)
	}
	if err := script(t, j, twin, func() {}); err != nil {
		t.Fatal(err)
	}
	if _, err := j.Append(t.Context(), journal.Batch{Entries: []journal.Entry{put(pods, "new", 0, "")}}); err != nil {
		t.Fatal(err) // something to flush
	}
	hung := make(chan struct{})
	gate.mu.Lock()
	gate.closed = hung
	gate.mu.Unlock()
	var all sync.WaitGroup
	all.Go(func() {
		if err := flush(j); err != nil {
			t.Error(err)
		}
	})
	await(t, func() bool {
		gate.mu.Lock()
		defer gate.mu.Unlock()
		return gate.waiting
	})

	read := func() error {
		_, err := j.History(t.Context(), pods, j.Compacted(), twin.Head(), 1)
		return err
	}
	goroutines := runtime.NumGoroutine()
	for range 200 {
		if err := read(); err != nil {
			t.Fatal(err)
		}
	}
	await(t, func() bool { return runtime.NumGoroutine()-goroutines <= 10 }) // pebble may start some, and end them later
	s, release, err := j.use()
	if err != nil {
		t.Fatal(err)
	}
	for range maxUnclosed { // as more readers do; what is before them may still be closed
		s.closeLater(closeFunc(func() error { <-hung; return nil }))
	}
	release()
	if err := read(); !errors.Is(err, journal.ErrUnavailable) {
		t.Errorf("history: %v, want ErrUnavailable", err)
	}
	if _, err := j.Check(t.Context()); !errors.Is(err, journal.ErrUnavailable) {
		t.Errorf("check: %v, want ErrUnavailable", err)
	}

	gate.mu.Lock()
	gate.closed = nil
	gate.mu.Unlock()
	close(hung)
	all.Wait()
	await(t, func() bool { return read() == nil })
	await(t, func() bool { return j.life.store.db.Metrics().Snapshots.Count == 0 })
	if err := j.Close(); err != nil {
		t.Error(err)
	}
}

// TestSnapshotsAreClosedInOrder: one after the other, and a panic of pebble is an error of one of
// them.
func TestSnapshotsAreClosedInOrder(t *testing.T) {
	var log strings.Builder
	s := &store{disk: newDisk(vfs.NewMem(), slog.New(slog.NewTextHandler(&log, nil)), nil)}
	hung := make(chan struct{})
	var closed []int // without a lock: the race detector reports two goroutines
	s.users.Add(1)
	for i := range 100 {
		s.closeLater(closeFunc(func() error {
			if i == 0 {
				<-hung
			}
			closed = append(closed, i)
			if i == 50 {
				panic("corrupt")
			}
			return nil
		}))
	}
	if n := s.unclosed.len(); n != 100 {
		t.Errorf("%d wait", n)
	}
	s.users.Done()
	close(hung)
	s.users.Wait()
	if len(closed) != 100 || !slices.IsSorted(closed) {
		t.Errorf("closed %v", closed)
	}
	if n := strings.Count(log.String(), "corrupt"); n != 1 {
		t.Errorf("log: %s", log.String())
	}
	if n := s.unclosed.len(); n != 0 {
		t.Errorf("%d wait in the end", n)
	}
}

type closeFunc func() error

func (f closeFunc) Close() error { return f() }
