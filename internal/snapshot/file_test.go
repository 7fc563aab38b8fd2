package snapshot

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
)

func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "backup")
	for _, objects := range [][]string{{"old"}, {"new"}} { // the second one replaces the first
		s, err := WriteFile(path, func(w io.Writer) error {
			return Write(w, Header{Revision: 9, Kubernetes: objects[0]}, slices.Values(some(t)))
		})
		if err != nil {
			t.Fatal(err)
		}
		if s.Revision != 9 || s.Objects != 6 || len(s.Resources) != 3 {
			t.Errorf("%+v", s)
		}
		n := int64(0)
		for _, o := range some(t)[:2] {
			n += int64(len(o.Raw))
		}
		if want := (ResourceSummary{Resource: "nodes", Objects: 2, Bytes: n}); s.Resources[0] != want {
			t.Errorf("%+v, want %+v", s.Resources[0], want)
		}
		file, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if h, _, err := read(file); err != nil || h.Kubernetes != objects[0] {
			t.Errorf("%+v: %v", h, err)
		}
	}
	if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode() != 0o600 {
		t.Errorf("%v: %v", info, err)
	}
}

// TestWriteFileFails checks that an error leaves only the old file.
func TestWriteFileFails(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "backup")
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	for name, test := range map[string]struct {
		write func(io.Writer) error
		want  error
	}{
		"nothing": {func(io.Writer) error { return nil }, ErrTruncated},
		"error":   {func(io.Writer) error { return broken }, broken},
		"foreign": {func(w io.Writer) error { _, err := io.WriteString(w, "<html>\n"); return err }, ErrForeign},
		"half": {func(w io.Writer) error {
			_, err := w.Write(write(t, Header{Revision: 9}, some(t)...)[:100])
			return err
		}, ErrTruncated},
		"nonsense": {func(w io.Writer) error { _, err := w.Write(forge(start, []byte{7})); return err }, ErrDamaged},
	} {
		if _, err := WriteFile(path, test.write); !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", name, err, test.want)
		}
		files, err := os.ReadDir(dir)
		if err != nil || len(files) != 1 {
			t.Errorf("%s: %v %v", name, files, err)
		}
		if old, err := os.ReadFile(path); err != nil || string(old) != "old" {
			t.Errorf("%s: %q %v", name, old, err)
		}
	}
	if _, err := WriteFile(dir, func(io.Writer) error { return nil }); err == nil {
		t.Error("a directory was replaced")
	}
	if _, err := WriteFile(filepath.Join(dir, "no", "backup"), func(io.Writer) error { return nil }); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("in a missing directory: %v", err)
	}
}
