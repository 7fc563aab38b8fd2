package pebble

import (
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/journal/journaltest"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("JOURNAL_TEST_OPEN"); dir != "" { // see TestLock
		_, err := Open(Options{Dir: dir})
		if !errors.Is(err, journal.ErrLocked) {
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

var quiet = slog.New(slog.DiscardHandler)

func TestJournal(t *testing.T) {
	for _, test := range []struct {
		name string
		opts func(t *testing.T) Options
	}{
		{"memory", func(*testing.T) Options { return Options{Dir: "journal", FS: vfs.NewMem()} }},
		// Tables so small that everything is flushed and compacted all the time.
		{"small", func(*testing.T) Options { return Options{Dir: "journal", FS: vfs.NewMem(), MemTableBytes: 4 << 10} }},
		{"disk", func(t *testing.T) Options { return Options{Dir: t.TempDir()} }},
		{"unsynced", func(t *testing.T) Options { return Options{Dir: t.TempDir(), Unsynced: true} }},
	} {
		t.Run(test.name, func(t *testing.T) {
			journaltest.Run(t, journaltest.Engine{
				New: func(t *testing.T) func() (journal.Journal, error) {
					opts := test.opts(t)
					opts.Logger = quiet
					return func() (journal.Journal, error) { return Open(opts) }
				},
			})
		})
	}
}

func TestLock(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "journal")
	j, err := Open(Options{Dir: dir, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{dir, link} {
		if _, err := Open(Options{Dir: name, Logger: quiet}); !errors.Is(err, journal.ErrLocked) {
			t.Errorf("second open of %s: %v", name, err)
		} else {
			t.Log(err)
		}
		other := exec.Command(os.Args[0])
		other.Env = append(os.Environ(), "JOURNAL_TEST_OPEN="+name)
		if out, err := other.CombinedOutput(); err != nil {
			t.Errorf("another process opened %s: %v %s", name, err, out)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if j, err = Open(Options{Dir: link, Logger: quiet}); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}
