package pebble

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/journal/journaltest"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/test/seeds"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// returned is a journal whose files fail as soon as it has been recovered.
type returned struct {
	*Journal
	t *testing.T
}

func (r returned) Recover(ctx context.Context, sink journal.Sink) error {
	if err := r.Journal.Recover(ctx, sink); err != nil {
		return err
	}
	r.life.store.disk.fail(errors.New("as if"))
	await(r.t, func() bool { return r.Health() == nil })
	return nil
}

// TestJournalThatCameBack: a journal that has come back keeps all promises.
func TestJournalThatCameBack(t *testing.T) {
	journaltest.Run(t, journaltest.Engine{
		New: func(t *testing.T) func() (journal.Journal, error) {
			opts := Options{Dir: "journal", FS: vfs.NewMem(), MemTableBytes: 8 << 10, Logger: quiet, firstRetry: 100 * time.Microsecond}
			return func() (journal.Journal, error) {
				j, err := Open(opts)
				return returned{j, t}, err
			}
		},
	})
}

// TestComesBack: the files fail repeatedly under writers, readers and
// compactions, and the machine may lose power at any moment. Nothing that was
// acknowledged is lost, and what was not is there as a whole or never.
func TestComesBack(t *testing.T) {
	seed := seeds.Of(t)
	mem := vfs.NewCrashableMem()
	var failing atomic.Int64 // how many of the next calls fail
	faults := errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && failing.Load() > 0 && failing.Add(-1) >= 0 {
			return syscall.EIO
		}
		return nil
	})
	j, err := Open(Options{Dir: "journal", FS: crashable{errorfs.Wrap(mem, faults)}, Logger: quiet, MemTableBytes: 16 << 10, firstRetry: 100 * time.Microsecond})
	if err != nil {
		t.Fatal(err)
	}
	twin := journaltest.NewTwin()
	if err := j.Recover(t.Context(), twin); err != nil {
		t.Fatal(err)
	}
	type crash struct {
		fs           *vfs.MemFS
		acknowledged object.Revision
		compacted    object.Revision
	}
	var crashes []crash
	var writers, others sync.WaitGroup
	var unknown, refused, wrote atomic.Int64
	text := fmt.Sprintf("%0300d", 0)
	for w := range 4 {
		writers.Go(func() {
			for i := 0; i < 150 || i < 10_000 && j.Stats().Failures < 3; i++ {
				e := put(pods, fmt.Sprint(w, i%5), 0, text)
				e.Prev = twin.Revision(e.Key)
				if e.Prev > 0 && i%4 == 0 {
					e.Object = nil
				}
				rev, err := j.Append(t.Context(), journal.Batch{Entries: []journal.Entry{e, put(nodes, fmt.Sprint(w, "-", i), 0, "")}})
				switch {
				case err == nil:
					wrote.Add(1)
					if at := twin.Head(); at < rev {
						t.Errorf("acknowledged %d, visible %d", rev, at)
					}
				case errors.Is(err, journal.ErrUnknown):
					unknown.Add(1)
				case errors.Is(err, journal.ErrUnavailable):
					refused.Add(1)
					await(t, func() bool { return j.Health() == nil || t.Failed() })
				default: // of these keys there is one writer each: nothing else may happen
					var conflict *journal.ConflictError
					if !errors.As(err, &conflict) {
						t.Errorf("append: %v", err)
					}
				}
			}
		})
	}
	done := make(chan struct{})
	others.Go(func() {
		rng := rand.New(rand.NewPCG(seed, 1))
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
			}
			if i%10 == 0 && j.Health() == nil {
				failing.Store(1 + rng.Int64N(3))
			}
			if err := j.Compact(t.Context(), twin.Head()-20); err != nil && !errors.Is(err, journal.ErrUnavailable) {
				t.Errorf("compact: %v", err)
			}
			_, err := j.History(t.Context(), pods, twin.Head()-5, twin.Head(), 0)
			if err != nil && !errors.Is(err, journal.ErrCompacted) && !errors.Is(err, journal.ErrUnavailable) {
				t.Errorf("history: %v", err)
			}
			if len(crashes) < 60 {
				at, compacted := twin.Head(), j.Compacted()
				clone := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(3) * 50, RNG: rng})
				crashes = append(crashes, crash{clone, at, compacted})
			}
		}
	})
	writers.Wait()
	close(done)
	others.Wait()
	failing.Store(0)
	await(t, func() bool { return j.Health() == nil })
	if report, err := j.Check(t.Context()); err != nil || len(report.Problems) > 0 {
		t.Errorf("check: %+v, error %v", report, err)
	}
	stats := j.Stats()
	if err := j.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	crashes = append(crashes, crash{mem.CrashClone(vfs.CrashCloneCfg{}), twin.Head(), j.Compacted()})
	for _, c := range crashes {
		got, compacted := readBack(t, c.fs)
		if compacted < c.compacted {
			t.Errorf("compacted up to %d, was %d before the crash", compacted, c.compacted)
		}
		checkPrefix(t, twin.Entries(), c.acknowledged, got, compacted)
	}
	t.Logf("%d acknowledged, %d unknown, %d refused, %d crashes, %+v", wrote.Load(), unknown.Load(), refused.Load(), len(crashes), stats)
	if stats.Failures < 3 || stats.Returns != stats.Failures {
		t.Errorf("%d failures, %d returns", stats.Failures, stats.Returns)
	}
}

// gate is a disk that can be made to answer no sync.
type gate struct {
	vfs.FS
	mu sync.RWMutex // write-held while it does not answer
}

type gatedFile struct {
	vfs.File
	gate *gate
}

func (g *gate) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := g.FS.Create(name, c)
	return gatedFile{f, g}, err
}

func (f gatedFile) wait() {
	f.gate.mu.RLock()
	defer f.gate.mu.RUnlock()
}

func (f gatedFile) Sync() error     { f.wait(); return f.File.Sync() }
func (f gatedFile) SyncData() error { f.wait(); return f.File.SyncData() }

// TestSlowDisk checks that writers wait while the disk does not respond, and that everything else
// continues.
func TestSlowDisk(t *testing.T) {
	disk := &gate{FS: vfs.NewMem()}
	j, err := Open(Options{Dir: "journal", FS: crashable{disk}, Logger: quiet})
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
	before := twin.Head()
	disk.mu.Lock()
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			if _, err := j.Append(t.Context(), journal.Batch{Entries: []journal.Entry{put(pods, fmt.Sprint("slow", i), 0, "")}}); err != nil {
				t.Error(err)
			}
		})
	}
	for range 20 {
		if _, err := j.History(t.Context(), pods, j.Compacted(), before, 0); err != nil {
			t.Error(err)
		}
		if report, err := j.Check(t.Context()); err != nil || len(report.Problems) > 0 {
			t.Errorf("%+v, error %v", report, err)
		}
		if at, _ := j.Head(); at != before || twin.Head() != before {
			t.Errorf("head %d, visible %d, before %d", at, twin.Head(), before)
		}
	}
	disk.mu.Unlock()
	all.Wait()
	if err := j.Close(); err != nil {
		t.Error(err)
	}
	if twin.Head() != before+20 {
		t.Errorf("head %d, before %d", twin.Head(), before)
	}
}

// TestCloseWhileDown: a journal can be closed while its files fail, and what was
// acknowledged is there when it is opened again.
func TestCloseWhileDown(t *testing.T) {
	var bad atomic.Bool
	mem := vfs.NewMem()
	fs := crashable{errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if bad.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			return syscall.EIO
		}
		return nil
	}))}
	j, err := Open(Options{Dir: "journal", FS: fs, Logger: quiet, firstRetry: 100 * time.Microsecond})
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
	bad.Store(true)
	_, err = j.Append(t.Context(), journal.Batch{Entries: []journal.Entry{put(pods, "a", 0, "")}})
	if !errors.Is(err, journal.ErrUnknown) && !errors.Is(err, journal.ErrUnavailable) { // the background may be first to fail
		t.Fatalf("append: %v", err)
	}
	if err := j.Close(); !errors.Is(err, syscall.EIO) {
		t.Errorf("close: %v", err)
	}
	if _, err := j.Append(t.Context(), journal.Batch{Entries: []journal.Entry{put(pods, "b", 0, "")}}); !errors.Is(err, journal.ErrClosed) {
		t.Errorf("append: %v", err)
	}
	got, compacted := readBack(t, mem)
	wrote := twin.Entries()
	for _, e := range got.Entries() {
		if e.Key.Name == "a" { // its outcome was unknown
			wrote = append(wrote, e)
		}
	}
	checkPrefix(t, wrote, twin.Head(), got, compacted)
}
