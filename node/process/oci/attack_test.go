package oci

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/node/internal/rootfs"
	"github.com/kapok-dev/kapok/node/process"

	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// blanks is a reader of blanks without an end.
type blanks struct{ read int64 }

func (b *blanks) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	b.read += int64(len(p))
	return len(p), nil
}

const manyBlanks = 64 << 20 // of which gzip makes 64 kB

// bomb writes an archive whose last file has many blanks, and returns its path.
func bomb(t *testing.T, last string, others ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "bomb.tar")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	z := gzip.NewWriter(f)
	w := tar.NewWriter(z)
	for _, other := range others {
		name, content, _ := strings.Cut(other, "=")
		h := &tar.Header{Name: name, Mode: 0o600, Size: int64(len(content)), Typeflag: tar.TypeReg}
		target, isLink := strings.CutPrefix(content, "->")
		if isLink {
			h.Typeflag, h.Size, h.Linkname, content = tar.TypeSymlink, 0, target, ""
		}
		if err := errors.Join(w.WriteHeader(h), text(w, content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.WriteHeader(&tar.Header{Name: last, Mode: 0o600, Size: manyBlanks, Typeflag: tar.TypeReg}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(w, io.LimitReader(&blanks{}, manyBlanks)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Close(), z.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	return file
}

func text(w io.Writer, s string) error {
	_, err := io.WriteString(w, s)
	return err
}

// blob returns the digest of a content.
func blob(content string) string {
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:])
}

// TestBombs has small archives with long manifests and configurations, which must not be read into
// memory: what a Pull allocates is far less.
func TestBombs(t *testing.T) {
	zeros := strings.Repeat("0", 64)
	manifest := `{"schemaVersion":2,"config":{"mediaType":"application/vnd.oci.image.config.v1+json","size":2,"digest":"sha256:` + zeros + `"},"layers":[]}`
	of := func(digest string) string {
		return `{"schemaVersion":2,"manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json","size":2,"digest":"sha256:` + digest + `"}]}`
	}
	for name, file := range map[string]string{
		"manifest of docker save":      bomb(t, "manifest.json"),
		"linked manifest":              bomb(t, "other", "manifest.json=->other"),
		"configuration of docker save": bomb(t, "config.json", `manifest.json=[{"Config":"config.json","Layers":[]}]`),
		"linked configuration":         bomb(t, "other", `manifest.json=[{"Config":"config.json","Layers":[]}]`, "config.json=->other"),
		"index of a layout":            bomb(t, "index.json"),
		"manifest of a layout":         bomb(t, "blobs/sha256/"+zeros, "index.json="+of(zeros)),
		"configuration of a layout":    bomb(t, "blobs/sha256/"+zeros, "index.json="+of(blob(manifest)), "blobs/sha256/"+blob(manifest)+"="+manifest),
	} {
		s := newStore(t, Options{})
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := s.Pull(t.Context(), process.ImageRequest{Archive: file})
		runtime.ReadMemStats(&after)
		if !errors.Is(err, rootfs.ErrTooLarge) {
			t.Errorf("%s: got %v, want %v", name, err, rootfs.ErrTooLarge)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > manyBlanks/2 {
			t.Errorf("%s: %d bytes were allocated", name, n)
		}
	}
}

// TestNestedIndexes has indexes that name each other many times: reading all takes years.
func TestNestedIndexes(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "blobs", "sha256"), 0o700); err != nil {
		t.Fatal(err)
	}
	content := `{"schemaVersion":2,"manifests":[]}`
	for range deepest {
		digest := blob(content)
		if err := os.WriteFile(filepath.Join(dir, "blobs", "sha256", digest), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		one := fmt.Sprintf(`{"mediaType":"application/vnd.oci.image.index.v1+json","size":%d,"digest":"sha256:%s"}`, len(content), digest)
		content = `{"schemaVersion":2,"manifests":[` + one + strings.Repeat(","+one, 30) + `]}`
	}
	for name, content := range map[string]string{"index.json": content, "oci-layout": `{"imageLayoutVersion":"1.0.0"}`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := newStore(t, Options{}).Pull(t.Context(), process.ImageRequest{Archive: dir}); !errors.Is(err, rootfs.ErrTooLarge) {
		t.Errorf("got %v, want %v", err, rootfs.ErrTooLarge)
	}
}

// TestEndlessConfig pulls from a registry whose manifest has a configuration of no known size,
// which does not end.
func TestEndlessConfig(t *testing.T) {
	sent := &blanks{}
	zeros := strings.Repeat("0", 64)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.Contains(r.URL.Path, "/manifests/"):
			w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
			fmt.Fprintf(w, `{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{"mediaType":"application/vnd.oci.image.config.v1+json","size":-1,"digest":"sha256:%s"},"layers":[]}`, zeros)
		case strings.Contains(r.URL.Path, "/blobs/"):
			_, _ = io.Copy(w, io.LimitReader(sent, manyBlanks))
		}
	}))
	defer server.Close()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	s := newStore(t, Options{Transport: transport})
	_, err := s.Pull(t.Context(), process.ImageRequest{Reference: strings.TrimPrefix(server.URL, "http://") + "/web:1"})
	if !errors.Is(err, rootfs.ErrTooLarge) || sent.read > 0 {
		t.Errorf("got %v after %d bytes, want %v", err, sent.read, rootfs.ErrTooLarge)
	}
}

// TestDamagedImage removes the configuration of an image, as a container without a root directory
// of its own can: the image is unpacked again.
func TestDamagedImage(t *testing.T) {
	image := newImage(t, []string{"app=1"})
	dir := t.TempDir()
	path, err := layout.Write(dir, empty.Index)
	if err == nil {
		err = path.AppendImage(image)
	}
	if err != nil {
		t.Fatal(err)
	}
	s := newStore(t, Options{})
	for range 2 {
		got, err := s.Pull(t.Context(), process.ImageRequest{Archive: dir})
		if err != nil {
			t.Fatal(err)
		}
		check(t, got, image, map[string]string{"app": "1"})
		if err := errors.Join(os.Remove(filepath.Join(got.Root, "..", "image.json")), os.Remove(filepath.Join(got.Root, "app"))); err != nil {
			t.Fatal(err)
		}
	}
	if entries, err := os.ReadDir(filepath.Join(s.options.Dir, "tmp")); err != nil || len(entries) > 0 {
		t.Errorf("left in tmp are %v, %v", entries, err)
	}
}
