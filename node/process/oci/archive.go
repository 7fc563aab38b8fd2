package oci

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime"

	"github.com/kapok-dev/kapok/node/internal/beneath"
	"github.com/kapok-dev/kapok/node/internal/rootfs"
	"github.com/kapok-dev/kapok/node/process"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// fromArchive adds the image of a file or directory.
func (s *Store) fromArchive(ctx context.Context, file string) (i *process.Image, err error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return s.fromLayout(ctx, file)
	}
	open, err := opener(ctx, file)
	if err != nil {
		return nil, err
	}
	saved, err := s.isSaved(open)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if saved {
		image, err := tarball.Image(open, nil)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		return s.add(ctx, image, "")
	}
	tmp := filepath.Join("tmp", rand.Text())
	defer func() { err = errors.Join(err, beneath.RemoveAll(s.root, tmp)) }()
	if err := s.extract(open, tmp); err != nil {
		return nil, fmt.Errorf("%s is neither an archive of docker save nor an OCI layout: %w", file, err)
	}
	return s.fromLayout(ctx, filepath.Join(s.options.Dir, tmp))
}

// The contents of an archive of docker save. That of a layer in its older form has four entries.
const (
	maxEntries  = 20 * maxLayers
	longestName = 1024
)

// isSaved reports whether a file is an archive of docker save. Its manifest and configuration,
// which the library reads as a whole, are not too long.
func (s *Store) isSaved(open tarball.Opener) (bool, error) {
	archive, err := open()
	if err != nil {
		return false, nil // not a file of gzip
	}
	defer archive.Close()
	type entry struct {
		size int64
		link string
	}
	entries := map[string]entry{} // the first of each name, as in the library
	left := s.options.MaxBytes
	for r := tar.NewReader(archive); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return false, nil
		}
		name := path.Clean(h.Name)
		if left -= h.Size; left < 0 || len(entries) == maxEntries || len(name) > longestName || len(h.Linkname) > longestName {
			return false, fmt.Errorf("%w: the archive has more than %d bytes or entries than are permitted", rootfs.ErrTooLarge, s.options.MaxBytes)
		}
		if _, known := entries[name]; known {
			continue
		}
		e := entry{size: h.Size}
		if h.Typeflag == tar.TypeSymlink || h.Typeflag == tar.TypeLink {
			e.link = path.Join(path.Dir(name), path.Clean(h.Linkname))
		}
		entries[name] = e
	}
	isShort := func(name string) bool {
		e := entries[path.Clean(name)]
		for range deepest {
			if e.link == "" {
				break
			}
			e = entries[e.link]
		}
		return e.link == "" && e.size <= longestConfig
	}
	if _, ok := entries["manifest.json"]; !ok {
		return false, nil
	}
	if !isShort("manifest.json") {
		return false, fmt.Errorf("%w: manifest.json", rootfs.ErrTooLarge)
	}
	manifest, err := tarball.LoadManifest(open)
	if err != nil {
		return false, nil
	}
	for _, d := range manifest {
		if !isShort(d.Config) || len(d.Layers) > maxLayers {
			return false, fmt.Errorf("%w: its configuration, or %d layers", rootfs.ErrTooLarge, len(d.Layers))
		}
	}
	return true, nil
}

// opener returns a function that opens a tar file, with or without gzip.
func opener(ctx context.Context, file string) (tarball.Opener, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	magic, err := bufio.NewReader(f).Peek(2)
	f.Close()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return func() (io.ReadCloser, error) {
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		if magic[0] != 0x1f || magic[1] != 0x8b {
			return struct {
				io.Reader
				io.Closer
			}{&cancelled{ctx, f}, f}, nil
		}
		z, err := gzip.NewReader(&cancelled{ctx, f})
		if err != nil {
			f.Close()
			return nil, err
		}
		return struct {
			io.Reader
			io.Closer
		}{z, f}, nil
	}, nil
}

// layoutFile matches the files of an OCI layout.
var layoutFile = regexp.MustCompile(`^(oci-layout|index\.json|blobs/sha256/[0-9a-f]{64})$`)

// extract writes the files of an OCI layout in a tar file to a directory.
func (s *Store) extract(open tarball.Opener, dir string) error {
	archive, err := open()
	if err != nil {
		return err
	}
	defer archive.Close()
	to, err := beneath.MakeDir(s.root, filepath.Join(dir, "blobs", "sha256"))
	if err != nil {
		return err
	}
	defer to.Close()
	left := s.options.MaxBytes
	found := false
	for r := tar.NewReader(archive); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		name := path.Clean(h.Name)
		if h.Typeflag != tar.TypeReg || !layoutFile.MatchString(name) {
			continue
		}
		found = found || name == "index.json"
		if left, err = s.write(filepath.Join(dir, name), r, left); err != nil {
			return err
		}
	}
	if !found {
		return errors.New("there is no index.json")
	}
	return nil
}

// write writes a file of at most left bytes, and returns how many are then left.
func (s *Store) write(name string, from io.Reader, left int64) (int64, error) {
	f, err := s.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return left, err
	}
	n, err := io.Copy(f, io.LimitReader(from, left+1))
	if err == nil && n > left {
		err = rootfs.ErrTooLarge
	}
	return left - n, errors.Join(err, f.Close())
}

// fromLayout adds the image of the directory of an OCI layout.
func (s *Store) fromLayout(ctx context.Context, dir string) (*process.Image, error) {
	if err := short(filepath.Join(dir, "index.json")); err != nil {
		return nil, err
	}
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, err
	}
	image, err := (&finder{dir: dir}).find(index, 0)
	if err != nil {
		return nil, err
	}
	return s.add(ctx, image, "")
}

// short returns an error for a file that is too long to be read as a whole.
func short(file string) error {
	info, err := os.Stat(file)
	if err == nil && info.Size() > longestConfig {
		err = fmt.Errorf("%w: %s has %d bytes", rootfs.ErrTooLarge, filepath.Base(file), info.Size())
	}
	return err
}

const (
	// deepest is the depth of an index in others.
	deepest = 4
	// maxIndexes is the number of indexes and images that are read.
	maxIndexes = 1000
)

// A finder finds an image in an OCI layout.
type finder struct {
	dir  string
	read int // the number of indexes and images that were read
}

// check returns an error if the manifest or index of a digest must not be read.
func (f *finder) check(h v1.Hash) error {
	if f.read++; f.read > maxIndexes {
		return fmt.Errorf("%w: more than %d indexes", rootfs.ErrTooLarge, maxIndexes)
	}
	return short(filepath.Join(f.dir, "blobs", h.Algorithm, h.Hex))
}

// image returns an image, whose configuration can be read.
func (f *finder) image(index v1.ImageIndex, h v1.Hash) (v1.Image, error) {
	if err := f.check(h); err != nil {
		return nil, err
	}
	image, err := index.Image(h)
	if err != nil {
		return nil, err
	}
	manifest, err := image.Manifest()
	if err != nil {
		return nil, err
	}
	return image, f.check(manifest.Config.Digest)
}

// find returns the image of an index for this machine. One without a platform is taken if there is
// no other.
func (f *finder) find(index v1.ImageIndex, depth int) (v1.Image, error) {
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	var other *v1.Hash
	for i := range manifest.Manifests {
		d := &manifest.Manifests[i]
		switch {
		case d.MediaType == types.OCIImageIndex || d.MediaType == types.DockerManifestList:
			if depth == deepest {
				continue
			}
			if err := f.check(d.Digest); err != nil {
				return nil, err
			}
			nested, err := index.ImageIndex(d.Digest)
			if err != nil {
				return nil, err
			}
			image, err := f.find(nested, depth+1)
			if err == nil || errors.Is(err, rootfs.ErrTooLarge) {
				return image, err
			}
		case !d.MediaType.IsImage():
		case d.Platform == nil:
			other = &d.Digest
		case d.Platform.OS == runtime.GOOS && d.Platform.Architecture == runtime.GOARCH:
			return f.image(index, d.Digest)
		}
	}
	if other != nil {
		return f.image(index, *other)
	}
	return nil, fmt.Errorf("the index has no image for %s/%s", runtime.GOOS, runtime.GOARCH)
}
