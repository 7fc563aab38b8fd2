package pebble

import (
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/kapok-dev/kapok/internal/journal/journaltest"
	"github.com/kapok-dev/kapok/internal/object"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// unlisted cannot list a directory once so many calls have succeeded.
type unlisted struct {
	vfs.FS
	calls *atomic.Int64
}

func (u unlisted) List(dir string) ([]string, error) {
	if u.calls.Add(-1) < 0 {
		return nil, syscall.EIO
	}
	return u.FS.List(dir)
}

// TestOpeningFailsLate: pebble lists the directory once more after it has flushed what was in the
// logs. It must not close the store there and then: what runs since the flush would panic.
func TestOpeningFailsLate(t *testing.T) {
	mem := vfs.NewCrashableMem()
	opts := Options{Dir: "journal", FS: crashable{mem}, Logger: quiet, MemTableBytes: 8 << 10}
	j, err := Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	twin := journaltest.NewTwin()
	if err := j.Recover(t.Context(), twin); err != nil {
		t.Fatal(err)
	}
	var crashes []*vfs.MemFS // each with something in the logs, and tables to be compacted in some
	if err := script(t, j, twin, func() {
		crashes = append(crashes, mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 1))}))
	}); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	failed := 0
	for _, crash := range crashes {
		for n := range 10 {
			opts.FS = unlisted{crashable{crash.CrashClone(vfs.CrashCloneCfg{})}, &atomic.Int64{}}
			opts.FS.(unlisted).calls.Store(int64(n))
			j, err := Open(opts)
			if err != nil {
				failed++
				continue
			}
			if err := j.Recover(t.Context(), journaltest.NewTwin()); err != nil {
				t.Error(err)
			}
			if err := j.Close(); err != nil {
				t.Error(err)
			}
			break
		}
	}
	if failed < 2*len(crashes) {
		t.Errorf("%d of %d stores could not be opened: the directory is listed less often than it was", failed, len(crashes))
	}
}

// TestProgress checks what Recover reports of a store with more objects than there are between two
// reports.
func TestProgress(t *testing.T) {
	const n = 3 * ctxEvery
	revs := make([]object.Revision, n)
	for i := range revs {
		revs[i] = object.Revision(i + 1)
	}
	opts := Options{Dir: "journal", FS: vfs.NewMem(), Logger: quiet}
	if err := Import(t.Context(), opts, n, revisions(revs...)); err != nil {
		t.Fatal(err)
	}
	var read []int64
	opts.Progress = func(done, total int64) {
		if read = append(read, done); total != n {
			t.Errorf("%d of %d objects, want %d", done, total, n)
		}
	}
	j, err := Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if err := j.Recover(t.Context(), journaltest.NewTwin()); err != nil {
		t.Fatal(err)
	}
	if want := []int64{ctxEvery - 1, 2*ctxEvery - 1, 3*ctxEvery - 1}; !slices.Equal(read, want) {
		t.Errorf("reported %d, want %d", read, want)
	}
}

// TestProgressOfSalvage checks that the total is unknown in the first pass, and right afterwards.
func TestProgressOfSalvage(t *testing.T) {
	revs := make([]object.Revision, 3*ctxEvery)
	for i := range revs {
		revs[i] = object.Revision(i + 1)
	}
	opts := Options{Dir: "journal", FS: vfs.NewMem(), Logger: quiet}
	if err := Import(t.Context(), opts, object.Revision(len(revs)), revisions(revs...)); err != nil {
		t.Fatal(err)
	}
	var unknown, known int
	var last, expected int64
	opts.Progress = func(read, total int64) {
		if total == 0 {
			unknown++
			return
		}
		known, last, expected = known+1, read, total
	}
	if _, err := Salvage(t.Context(), opts, func(*object.Object) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if unknown < 3 || known < 2*unknown {
		t.Errorf("%d reports in the first pass and %d later", unknown, known)
	}
	if last > expected || last < expected-ctxEvery {
		t.Errorf("the last report is %d of %d", last, expected)
	}
}
