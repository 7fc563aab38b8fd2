//go:build unix

package pebble

import (
	"io/fs"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/journal/journaltest"
)

// TestModes: what is on disk is for its owner, even where the umask allows all,
// and where files are made later or used again.
func TestModes(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	dir := filepath.Join(t.TempDir(), "data", "journal")
	for range 2 {
		j, err := Open(Options{Dir: dir, Logger: quiet, MemTableBytes: 8 << 10})
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
		checkModes(t, filepath.Dir(dir))
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		checkModes(t, filepath.Dir(dir))
	}
}

func checkModes(t *testing.T, dir string) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // pebble removes files all the time
		}
		info, err := d.Info()
		if err != nil {
			return nil
		}
		want := fs.FileMode(0o600)
		if d.IsDir() {
			want = 0o700
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %v, want %v", path, got, want)
		}
		files++
		return nil
	})
	if err != nil || files < 5 {
		t.Errorf("%d files, error %v", files, err)
	}
}

var _ journal.Journal = (*Journal)(nil)
