package archive

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
)

// example returns the same files twice, in another order and with other times on disk.
func example(t *testing.T) (one, other []File, at time.Time) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "b")
	if err := os.WriteFile(path, []byte(strings.Repeat("content ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	at = time.Unix(1767323044, 0).UTC()
	if err := os.Chtimes(path, at, at.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	one = []File{
		{Name: "d/b", Mode: 0o755, Path: path},
		{Name: "d", Mode: fs.ModeDir | 0o700, Owner: 65532},
		{Name: "d/a", Mode: 0o644, Data: []byte("a")},
	}
	return one, []File{one[2], one[0], one[1]}, at
}

func TestFormats(t *testing.T) {
	one, other, at := example(t)
	for name, tt := range map[string]struct {
		format Format
		list   func(*testing.T, []byte) []string
		want   string
	}{
		"tar.gz": {TarGz, listTarGz, "d/ 700 65532 1767323044 0, d/a 644 0 1767323044 1, d/b 755 0 1767323044 8000"},
		"zip":    {Zip, listZip, "d/ 700 1767323044 0, d/a 644 1767323044 1, d/b 755 1767323044 8000"},
	} {
		var a, b bytes.Buffer
		if err := tt.format(&a, at, one); err != nil {
			t.Fatal(err)
		}
		if err := tt.format(&b, at, other); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(a.Bytes(), b.Bytes()) {
			t.Errorf("%s: the bytes depend on the order of the files", name)
		}
		if got := strings.Join(tt.list(t, a.Bytes()), ", "); got != tt.want {
			t.Errorf("%s: got %s, want %s", name, got, tt.want)
		}
	}
}

func listTarGz(t *testing.T, data []byte) (list []string) {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if z.Name != "" || z.ModTime.Unix() != 0 {
		t.Errorf("the header of gzip has the name %q and the time %s", z.Name, z.ModTime)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			return list
		}
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, fmt.Sprintf("%s %o %d %d %d", h.Name, h.Mode, h.Uid, h.ModTime.Unix(), h.Size))
	}
}

func listZip(t *testing.T, data []byte) (list []string) {
	t.Helper()
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range z.File {
		list = append(list, fmt.Sprintf("%s %o %d %d", f.Name, f.Mode().Perm(), f.Modified.Unix(), f.UncompressedSize64))
	}
	return list
}

func TestCreate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.tar")
	if err := Create(path, Tar, time.Time{}, []File{{Name: "a", Path: "no-such-file"}}); err == nil || !strings.Contains(err.Error(), "no-such-file") {
		t.Errorf("a file that does not exist: %v", err)
	}
	if err := Create(path, Tar, time.Time{}, nil); err == nil {
		t.Error("an archive that exists is replaced")
	}
}
