package pebble

import (
	"math/rand/v2"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/kapok-dev/kapok/internal/journal/journaltest"

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
