package pebble

import (
	"math/rand/v2"
	"testing"

	"github.com/kapok-dev/kapok/internal/journal/journaltest"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/test/seeds"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// crashable is a file system that uses no file again: vfs.MemFS waits for itself
// when it is cloned meanwhile, and errorfs does not see what is written then.
type crashable struct{ vfs.FS }

func (c crashable) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if err := c.Remove(oldname); err != nil {
		return nil, err
	}
	return c.Create(newname, category)
}

// TestCrash takes the disk away at every step of the script: after each
// acknowledgement, with nothing of what was not synced, or half of it.
func TestCrash(t *testing.T) {
	seed := seeds.Of(t)
	fs := vfs.NewCrashableMem()
	j, err := Open(Options{Dir: "journal", FS: crashable{fs}, Logger: quiet, MemTableBytes: 8 << 10})
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
	rng := rand.New(rand.NewPCG(seed, 0))
	take := func(percent int) {
		at, compacted := twin.Head(), j.Compacted()
		crashes = append(crashes, crash{fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rng}), at, compacted})
	}
	if err := script(t, j, twin, func() { take(0); take(50) }); err != nil {
		t.Fatal(err)
	}
	// And at moments that have nothing to do with the writers.
	done := make(chan error)
	go func() { done <- script(t, j, twin, func() {}) }()
	for running := true; running; {
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
			running = false
		default:
			if len(crashes) < 150 {
				take(rng.IntN(101))
			}
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	take(0)
	for _, c := range crashes {
		got, compacted := readBack(t, c.fs)
		if compacted < c.compacted {
			t.Fatalf("compacted up to %d, was %d before the crash", compacted, c.compacted)
		}
		checkPrefix(t, twin.Entries(), c.acknowledged, got, compacted)
	}
}
