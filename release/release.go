package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/release/internal/archive"
)

// release is one run of the command.
type release struct {
	options
	source
	dist     string // directory of the files, which replaces options.out at the end
	scratch  string // directory for temporary files
	binaries []binary
	own      *binary // the one that this machine can run, once it is needed
	log      io.Writer
}

// makeRelease writes the files of a release into a directory, which is complete or does not exist.
func makeRelease(ctx context.Context, o options, s source, log io.Writer) error {
	o.complete(s)
	out, err := filepath.Abs(o.out)
	if err != nil {
		return err
	}
	if err := vacant(out); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return err
	}
	scratch, err := os.MkdirTemp(filepath.Dir(out), ".release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	r := &release{options: o, source: s, dist: filepath.Join(scratch, "dist"), scratch: scratch, log: log}
	if err := os.Mkdir(r.dist, 0o755); err != nil {
		return err
	}
	if err := r.make(ctx); err != nil {
		return err
	}
	if err := os.Remove(out); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Rename(r.dist, out); err != nil {
		return err
	}
	fmt.Fprintf(log, "%s of commit %s is in %s\n", r.version, r.commit, out)
	return nil
}

// vacant returns an error unless a directory is empty or absent.
func vacant(dir string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("--out: %w", err)
	case len(entries) > 0:
		return fmt.Errorf("--out: %s has files, such as %s: remove it, or use another directory", dir, entries[0].Name())
	}
	return nil
}

// make runs the steps in their order: later ones describe the files of earlier ones.
func (r *release) make(ctx context.Context) error {
	for _, step := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"binaries", r.buildBinaries},
		{"archives", r.writeArchives},
		{"bills of materials", r.writeBills},
		{"packages", r.writePackages},
		{"image", r.writeImage},
		{"assets of envtest", r.writeEnvtest},
		{"chart", r.writeChart},
		{"installers", r.writeInstallers},
		{"provenance", r.writeProvenance},
		{"checksums", r.writeChecksums},
	} {
		begin := time.Now()
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		fmt.Fprintf(r.log, "%-20s %6.1f s\n", step.name, time.Since(begin).Seconds())
	}
	return nil
}

// name returns the name of a file of a binary, without extension.
func (r *release) name(t target) string {
	return "kapok-" + r.version + "-" + t.os + "-" + t.arch
}

// writeArchives packs each binary with the license and the readme, in a directory of the archive's
// name.
func (r *release) writeArchives(context.Context) error {
	for _, b := range r.binaries {
		name := r.name(b.target)
		files := []archive.File{
			{Name: name, Mode: fs.ModeDir | 0o755},
			{Name: name + "/kapok" + b.exe(), Mode: 0o755, Path: b.path},
			{Name: name + "/LICENSE", Mode: 0o644, Path: filepath.Join(r.source.dir, "LICENSE")},
			{Name: name + "/README.md", Mode: 0o644, Path: filepath.Join(r.source.dir, "README.md")},
		}
		if err := archive.Create(filepath.Join(r.dist, name+extension(b.target)), format(b.target), r.time, files); err != nil {
			return err
		}
	}
	return nil
}

// extension is that of the archive of a binary.
func extension(t target) string {
	if t.os == "windows" {
		return ".zip"
	}
	return ".tar.gz"
}

func format(t target) archive.Format {
	if t.os == "windows" {
		return archive.Zip
	}
	return archive.TarGz
}

// write writes a file of the release. Directories of its name are created.
func (r *release) write(name string, mode fs.FileMode, data []byte) error {
	path := filepath.Join(r.dist, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, data, mode)
}

// released returns the names of all files that are written already, with slashes, sorted.
func (r *release) released() ([]string, error) {
	var names []string
	err := filepath.WalkDir(r.dist, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(r.dist, path)
		names = append(names, filepath.ToSlash(name))
		return err
	})
	slices.SortFunc(names, strings.Compare)
	return names, err
}
