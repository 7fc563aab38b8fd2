package pebble

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/journal/journaltest"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// setFormat changes the format mark of a closed store.
func setFormat(t *testing.T, files vfs.FS, n int) {
	t.Helper()
	db, err := pebble.Open("journal", &pebble.Options{FS: files, Logger: pebble.DefaultLogger})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Set([]byte(markFormat), encodeMark(n), pebble.Sync); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// written returns a closed store with some writes.
func written(t *testing.T) (*vfs.MemFS, *journaltest.Twin) {
	t.Helper()
	files := vfs.NewMem()
	j, err := Open(Options{Dir: "journal", FS: files, Logger: quiet, MemTableBytes: 8 << 10})
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
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	return files, twin
}

// refuse opens a store that must be refused, for writes and read only. No file may change, and only
// so many may be created.
func refuse(t *testing.T, files vfs.FS, found, supported string, most int) {
	t.Helper()
	before := contents(t, files)
	for _, readOnly := range []bool{false, true} {
		_, err := Open(Options{Dir: "journal", FS: files, Logger: quiet, ReadOnly: readOnly})
		var damaged *journal.DamagedError
		if !errors.Is(err, errFormat) || errors.As(err, &damaged) {
			t.Fatalf("read only %t: %v, want an error about the format, and not about damage", readOnly, err)
		}
		for _, want := range []string{found + " is not supported", "reads " + supported, "newer version of kapok", "start that version", "restore a snapshot"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("read only %t: %v, want %q", readOnly, err, want)
			}
		}
		after := contents(t, files)
		for name, content := range before {
			if after[name] != content {
				t.Errorf("read only %t: %s has changed", readOnly, name)
			}
		}
		if further := len(after) - len(before); further > most {
			t.Errorf("read only %t: %d files were created, want %d at most", readOnly, further, most)
		}
	}
}

// TestNewerFormat: a store with a newer mark is refused, and has all objects afterwards. Pebble has
// begun a new list of its files by then, as the mark is read from an open store.
func TestNewerFormat(t *testing.T) {
	files, want := written(t)
	setFormat(t, files, format+1)
	refuse(t, files, fmt.Sprint("format ", format+1), fmt.Sprint(format), 6)
	setFormat(t, files, format)
	got, err := openTwin(t, files)
	if err != nil {
		t.Fatal(err)
	}
	if err := got.SameObjects(want); err != nil {
		t.Error(err)
	}
}

// TestNewerFiles: files of a newer pebble are refused before pebble opens them.
func TestNewerFiles(t *testing.T) {
	files, _ := written(t)
	marker := ""
	for name := range contents(t, files) {
		if strings.HasPrefix(name, "marker.format-version.") {
			marker = name
		}
	}
	if marker == "" {
		t.Fatal("no marker of the version of the files")
	}
	if err := files.Rename("journal/"+marker, "journal/"+marker[:strings.LastIndex(marker, ".")]+".999"); err != nil {
		t.Fatal(err)
	}
	refuse(t, files, "format of files 999", fmt.Sprint(uint64(pebble.FormatNewest)), 0)
}

// TestNewerHead: a store whose head has a newer version is refused before any file is opened for
// writes, and works again when the version is the old one.
func TestNewerHead(t *testing.T) {
	files, want := written(t)
	old := readFile(t, files, headName)
	newer := slices.Clone(old)
	for _, slot := range []int{0, headPage} {
		newer[slot+len(magic)-1] = '2'
	}
	writeFile(t, files, headName, newer)
	refuse(t, files, "version of HEAD 2", "1", 0)
	writeFile(t, files, headName, old)
	got, err := openTwin(t, files)
	if err != nil {
		t.Fatal(err)
	}
	if err := got.SameObjects(want); err != nil {
		t.Error(err)
	}
}

// contents returns the files of a store by their names.
func contents(t *testing.T, files vfs.FS) map[string]string {
	t.Helper()
	_, names := copyFiles(t, files)
	all := map[string]string{}
	for _, name := range names {
		if name != "LOCK" {
			all[name] = string(readFile(t, files, name))
		}
	}
	return all
}
