package stores

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/kapok-dev/kapok/internal/journal/encryption"
	"github.com/kapok-dev/kapok/internal/journal/pebble"
	"github.com/kapok-dev/kapok/internal/kinds"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/snapshot"
)

// archive is the directory that an archive was unpacked to.
type archive string

func unpack(t *testing.T, name string) archive {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zipped, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for r := tar.NewReader(zipped); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return archive(dir)
		}
		if err != nil {
			t.Fatal(err)
		}
		if !filepath.IsLocal(header.Name) {
			t.Fatalf("%s: %s is outside", name, header.Name)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, header.Name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func (a archive) data() string     { return filepath.Join(string(a), "data") }
func (a archive) snapshot() string { return filepath.Join(string(a), "snapshot") }

// encryption returns the file with the configuration of encryption at rest, or "".
func (a archive) encryption() string {
	name := filepath.Join(string(a), "encryption.yaml")
	if _, err := os.Stat(name); err != nil {
		return ""
	}
	return name
}

// objects returns the recorded objects.
func (a archive) objects(t *testing.T) (all objects) {
	t.Helper()
	f, err := os.Open(filepath.Join(string(a), "objects.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	decode(t, f, &all)
	if len(all) < 40 {
		t.Fatalf("objects.json has %d lists: too few to test anything", len(all))
	}
	return all
}

// decode decodes JSON, and keeps numbers as they are written.
func decode(t *testing.T, r io.Reader, into any) {
	t.Helper()
	d := json.NewDecoder(r)
	d.UseNumber()
	if err := d.Decode(into); err != nil {
		t.Fatal(err)
	}
}

// restore makes a data directory from the snapshot, as kapok snapshot restore does.
func (a archive) restore(t *testing.T) string {
	t.Helper()
	f, err := os.Open(a.snapshot())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := snapshot.Open(f)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "restored")
	opts := pebble.Options{Dir: filepath.Join(dir, "journal"), Unsynced: true, Logger: slog.New(slog.DiscardHandler)}
	if a.encryption() != "" {
		config, err := encryption.Load(t.Context(), a.encryption(), kinds.Paths(), opts.Logger)
		if err != nil {
			t.Fatal(err)
		}
		defer config.Close()
		opts.Sealer = config
	}
	head := r.Header().Revision + object.Revision(1000)
	if err := pebble.Import(t.Context(), opts, head, r.Objects()); err != nil {
		t.Fatal(err)
	}
	return dir
}
