package pebble

import (
	"errors"
	"testing"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/journal/journaltest"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// TestUnsynced writes to a disk that cannot sync: the journal does not call sync, and the writes
// are there after it is opened again.
func TestUnsynced(t *testing.T) {
	noSync := errorfs.InjectorFunc(func(op errorfs.Op) error {
		switch op.Kind {
		case errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo:
			return errors.New("this disk does not sync")
		}
		return nil
	})
	write := func(opts Options) error {
		opts.Dir, opts.Logger = "journal", quiet
		j, err := Open(opts)
		if err != nil {
			return err
		}
		if err := j.Recover(t.Context(), journaltest.NewTwin()); err != nil {
			return errors.Join(err, j.Close())
		}
		_, err = j.Append(t.Context(), journal.Batch{Entries: []journal.Entry{put(pods, "a", 0, "")}})
		return errors.Join(err, j.Close())
	}
	if err := write(Options{FS: errorfs.Wrap(vfs.NewMem(), noSync)}); err == nil {
		t.Fatal("the disk syncs")
	}
	memory := vfs.NewMem()
	if err := write(Options{FS: errorfs.Wrap(memory, noSync), Unsynced: true}); err != nil {
		t.Fatal(err)
	}
	if twin, _ := readBack(t, memory); twin.Revision(put(pods, "a", 0, "").Key) != 1 {
		t.Errorf("read back %v", twin.Entries())
	}
}
