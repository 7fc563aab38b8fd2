package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/kapok-dev/kapok/release/internal/archive"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const (
	imageRepository = "ghcr.io/kapok-dev/kapok"
	// imageUser is the number that distroless images give to their user nonroot.
	imageUser = 65532
	imageData = "/var/lib/kapok"
)

// writeImage writes an image for all architectures of Linux, as an OCI layout in one archive. The
// image has no base: the program is linked statically. It has no certificates of authorities
// either, as the server connects to addresses that its flags name, with authorities that its flags
// name; a cluster that needs those of the Internet mounts them at /etc/ssl/certs.
func (r *release) writeImage(context.Context) error {
	var index v1.ImageIndex = empty.Index
	images := 0
	for _, b := range r.binaries {
		if b.os != "linux" {
			continue
		}
		image, err := r.image(b)
		if err != nil {
			return fmt.Errorf("%s: %w", b.target, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: b.os, Architecture: b.arch}},
		})
		images++
	}
	if images == 0 {
		return nil
	}
	dir := filepath.Join(r.scratch, "image")
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	name := map[string]string{"org.opencontainers.image.ref.name": r.version, "io.containerd.image.name": imageRepository + ":" + r.version}
	if err := path.AppendIndex(index, layout.WithAnnotations(name)); err != nil {
		return err
	}
	files, err := tree(os.DirFS(dir), "")
	if err != nil {
		return err
	}
	return archive.Create(filepath.Join(r.dist, "kapok-"+r.version+"-image.tar"), archive.Tar, r.time, files)
}

// image returns the image of a binary.
func (r *release) image(b binary) (v1.Image, error) {
	layer, err := r.layer(b)
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	if image, err = mutate.AppendLayers(image, layer); err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy() // it has the digests of the layers
	config.OS, config.Architecture = b.os, b.arch
	config.Created = v1.Time{Time: r.time}
	config.History = []v1.History{{Created: config.Created, CreatedBy: "release"}}
	config.Config = v1.Config{
		User:         fmt.Sprintf("%d:%[1]d", imageUser),
		Entrypoint:   []string{"/usr/bin/kapok"},
		Cmd:          []string{"up", "--data-dir", imageData, "--listen", "0.0.0.0:6443", "--log-format", "json"},
		Env:          []string{"PATH=/usr/bin", "HOME=" + imageData},
		WorkingDir:   imageData,
		ExposedPorts: map[string]struct{}{"6443/tcp": {}},
		Volumes:      map[string]struct{}{imageData: {}},
		StopSignal:   "SIGTERM",
		Labels: map[string]string{
			"org.opencontainers.image.title":       "Kapok",
			"org.opencontainers.image.description": description,
			"org.opencontainers.image.url":         repository,
			"org.opencontainers.image.source":      repository,
			"org.opencontainers.image.version":     r.version,
			"org.opencontainers.image.revision":    r.commit,
			"org.opencontainers.image.created":     r.time.Format(time.RFC3339),
			"org.opencontainers.image.licenses":    "Apache-2.0",
			"org.opencontainers.image.vendor":      authors,
		},
	}
	return mutate.ConfigFile(image, config)
}

// layer returns the files of the image: the program, and the directories and accounts that it
// expects.
func (r *release) layer(b binary) (v1.Layer, error) {
	passwd := fmt.Sprintf("root:x:0:0:root:/:/sbin/nologin\nkapok:x:%d:%[1]d:kapok:%s:/sbin/nologin\n", imageUser, imageData)
	group := fmt.Sprintf("root:x:0:\nkapok:x:%d:\n", imageUser)
	path := filepath.Join(r.scratch, "layer-"+b.arch+".tar.gz")
	err := archive.Create(path, archive.TarGz, r.time, []archive.File{
		{Name: "etc", Mode: fs.ModeDir | 0o755},
		{Name: "etc/group", Mode: 0o644, Data: []byte(group)},
		{Name: "etc/passwd", Mode: 0o644, Data: []byte(passwd)},
		{Name: "tmp", Mode: fs.ModeDir | fs.ModeSticky | 0o777},
		{Name: "usr", Mode: fs.ModeDir | 0o755},
		{Name: "usr/bin", Mode: fs.ModeDir | 0o755},
		{Name: "usr/bin/kapok", Mode: 0o755, Path: b.path},
		{Name: "var", Mode: fs.ModeDir | 0o755},
		{Name: "var/lib", Mode: fs.ModeDir | 0o755},
		{Name: "var/lib/kapok", Mode: fs.ModeDir | 0o700, Owner: imageUser},
	})
	if err != nil {
		return nil, err
	}
	return tarball.LayerFromFile(path, tarball.WithMediaType(types.OCILayer))
}
