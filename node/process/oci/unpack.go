package oci

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/kapok-dev/kapok/node/internal/beneath"
	"github.com/kapok-dev/kapok/node/internal/rootfs"
	"github.com/kapok-dev/kapok/node/process"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// longestConfig is the maximum length of the configuration of an image, in bytes.
const longestConfig = 8 << 20

// maxLayers is the maximum number of layers of an image.
const maxLayers = 1000

// add adds an image, if it is not there yet.
func (s *Store) add(ctx context.Context, image v1.Image, reference string) (*process.Image, error) {
	manifest, err := image.Manifest()
	if err != nil {
		return nil, err
	}
	// A negative size is none for the library, which would read without a limit.
	if manifest.Config.Size < 0 || manifest.Config.Size > longestConfig || len(manifest.Layers) > maxLayers {
		return nil, fmt.Errorf("%w: its configuration has %d bytes and it has %d layers", rootfs.ErrTooLarge, manifest.Config.Size, len(manifest.Layers))
	}
	raw, err := image.RawConfigFile()
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(raw)
	id := "sha256:" + hex.EncodeToString(sum[:])
	if reference == "" {
		reference = id
	}
	if is, err := s.known(id, reference); is != nil || err != nil {
		return is, err
	}
	var config v1.ConfigFile
	if err := json.Unmarshal(raw, &config); err != nil {
		return nil, fmt.Errorf("the configuration of the image: %w", err)
	}
	if config.OS != runtime.GOOS || config.Architecture != runtime.GOARCH {
		return nil, fmt.Errorf("the image is for %s/%s, and this machine is %s/%s", config.OS, config.Architecture, runtime.GOOS, runtime.GOARCH)
	}
	if err := s.unpack(ctx, image, &config, id); err != nil {
		return nil, err
	}
	return s.known(id, reference)
}

// unpack makes the directory of an image.
func (s *Store) unpack(ctx context.Context, image v1.Image, config *v1.ConfigFile, id string) (err error) {
	layers, err := image.Layers()
	if err != nil {
		return err
	}
	if len(layers) != len(config.RootFS.DiffIDs) {
		return fmt.Errorf("the image has %d layers, and its configuration %d", len(layers), len(config.RootFS.DiffIDs))
	}
	tmp := filepath.Join("tmp", rand.Text())
	defer func() { err = errors.Join(err, beneath.RemoveAll(s.root, tmp)) }()
	dir, err := beneath.MakeDir(s.root, filepath.Join(tmp, "root"))
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := dir.Chmod(".", 0o755); err != nil {
		return err
	}
	tree := rootfs.New(dir, rootfs.Limits{Bytes: s.options.MaxBytes, Entries: s.options.MaxFiles})
	for i, l := range layers {
		if err := apply(ctx, tree, l, config.RootFS.DiffIDs[i]); err != nil {
			return fmt.Errorf("layer %d: %w", i, err)
		}
	}
	if err := tree.Finish(); err != nil {
		return err
	}
	data, err := json.Marshal(record{tree.Written(), *config})
	if err != nil {
		return err
	}
	if len(data) > longestRecord { // it would not be read
		return fmt.Errorf("%w: its configuration", rootfs.ErrTooLarge)
	}
	if err := beneath.Create(s.root, filepath.Join(tmp, "image.json"), data, 0o600); err != nil {
		return err
	}
	if err := syncAll(s.root); err != nil {
		return err
	}
	target, _ := dirOf(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.root.Lstat(filepath.Join(target, "image.json")); err == nil {
		return nil // another source has the same image
	}
	old := filepath.Join("tmp", rand.Text())
	if err := s.root.Rename(target, old); err != nil && !errors.Is(err, fs.ErrNotExist) { // it is damaged
		return err
	}
	defer func() { err = errors.Join(err, beneath.RemoveAll(s.root, old)) }()
	if err := s.root.Rename(tmp, target); err != nil {
		return err
	}
	return beneath.Sync(s.root)
}

// apply unpacks a layer, and compares its digest.
func apply(ctx context.Context, tree *rootfs.Tree, l v1.Layer, want v1.Hash) error {
	content, err := l.Uncompressed()
	if err != nil {
		return err
	}
	defer content.Close()
	hash := sha256.New()
	if err := tree.Apply(io.TeeReader(&cancelled{ctx, content}, hash)); err != nil {
		return err
	}
	if got := (v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(hash.Sum(nil))}); got != want {
		return fmt.Errorf("its digest is %s, and the configuration of the image has %s", got, want)
	}
	return nil
}

// cancelled is a reader that ends with a context.
type cancelled struct {
	ctx  context.Context
	from io.Reader
}

func (c *cancelled) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.from.Read(p)
}

// syncAll writes all files to the disk.
func syncAll(root *os.Root) error {
	d, err := root.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(syncSystem(d), d.Close())
}
