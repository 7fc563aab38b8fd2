package pebble

import (
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/journal/journaltest"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// halfCreate makes a file and says that it could not, as an open does that finds no
// free descriptor after the file has been made.
type halfCreate struct {
	vfs.FS
	arm *atomic.Int64
}

func (h halfCreate) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := h.FS.Create(name, c)
	if err == nil && strings.HasPrefix(h.PathBase(name), "marker.manifest.") && h.arm.Add(-1) >= 0 {
		f.Close()
		return nil, &os.PathError{Op: "open", Path: name, Err: syscall.EMFILE}
	}
	return f, err
}

// TestHalfMade: a file that is there although making it has failed, in the worst
// place: it names the list of all others. Neither a journal that comes back nor the
// next start may take the store for damaged.
func TestHalfMade(t *testing.T) {
	for _, running := range []bool{true, false} {
		mem, arm := vfs.NewMem(), &atomic.Int64{}
		opts := Options{Dir: "journal", FS: halfCreate{mem, arm}, Logger: quiet, MemTableBytes: 16 << 10, firstRetry: time.Millisecond}
		j, err := Open(opts)
		if err != nil {
			t.Fatal(err)
		}
		if err := j.Recover(t.Context(), journaltest.NewTwin()); err != nil {
			t.Fatal(err)
		}
		if _, err := j.Append(t.Context(), journal.Batch{Entries: []journal.Entry{put(pods, "a", 0, "x")}}); err != nil {
			t.Fatal(err)
		}
		arm.Store(1)
		if running {
			j.life.store.disk.fail(syscall.EIO)
			await(t, func() bool { return j.Health() == nil })
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		if !running {
			if _, err := Open(opts); !errors.Is(err, syscall.EMFILE) {
				t.Fatalf("opened without a free descriptor: %v", err)
			}
		}
		if j, err = Open(opts); err != nil {
			t.Fatalf("next start: %v", err)
		}
		twin := journaltest.NewTwin()
		if err := j.Recover(t.Context(), twin); err != nil {
			t.Fatalf("next start: %v", err)
		}
		if len(twin.Live()) != 1 {
			t.Errorf("%d objects", len(twin.Live()))
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
