package scaffold

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sort"

	"github.com/spf13/afero"
	"sigs.k8s.io/kubebuilder/v4/pkg/machinery"
)

// largest is the size in bytes up to which files are kept to restore them. No command changes a
// larger one: they are data.
const largest = 4 << 20

// apart are directories that no command changes.
var apart = map[string]bool{".git": true, "bin": true, "node_modules": true, "vendor": true}

// A project is the state of the files of a project at one time.
type project struct {
	root  string
	files map[string]file
	dirs  map[string]bool
}

type file struct {
	data []byte
	mode fs.FileMode
}

// take reads all files of a project.
func take(root string) (*project, error) {
	p := &project{root: root, files: map[string]file{}, dirs: map[string]bool{}}
	return p, p.each(func(path string, info fs.FileInfo) error {
		if info.IsDir() {
			p.dirs[path] = true
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		p.files[path] = file{data, info.Mode().Perm()}
		return nil
	})
}

// each calls f for the directories and regular files that commands may change.
func (p *project) each(f func(path string, info fs.FileInfo) error) error {
	return filepath.WalkDir(p.root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path == p.root:
			return nil
		case d.IsDir() && (apart[d.Name()] || otherModule(path)):
			return fs.SkipDir
		case !d.IsDir() && !d.Type().IsRegular():
			return nil
		}
		info, err := d.Info()
		if err != nil || !d.IsDir() && info.Size() > largest {
			return err
		}
		return f(path, info)
	})
}

// otherModule reports whether a directory below the root is a Go module of its own.
func otherModule(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}

// restore makes the files of the project what they were. It moves what has changed to a directory
// outside of the project, which it returns, "" if nothing has changed: another program may have
// written there, too.
func (p *project) restore() (aside string, err error) {
	var errs []error
	var madeDirs []string
	keep := func(path string, data []byte) error {
		if aside == "" {
			if aside, err = os.MkdirTemp("", "kapok-undone-"); err != nil {
				return err
			}
		}
		to := filepath.Join(aside, path)
		return errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, data, 0o644))
	}
	errs = append(errs, p.each(func(path string, info fs.FileInfo) error {
		was, known := p.files[path]
		switch {
		case info.IsDir():
			if !p.dirs[path] {
				madeDirs = append(madeDirs, path)
			}
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil || known && bytes.Equal(data, was.data) {
			return err
		}
		if err := keep(path, data); err != nil {
			return err
		}
		if !known {
			return os.Remove(path)
		}
		return os.WriteFile(path, was.data, was.mode)
	}))
	for path, was := range p.files {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, was.data, was.mode))
		}
	}
	sort.Sort(sort.Reverse(sort.StringSlice(madeDirs))) // children first
	for _, dir := range madeDirs {
		errs = append(errs, os.Remove(dir))
	}
	return aside, errors.Join(errs...)
}

// fileSystem is that of the machine, on which kubebuilder works.
func fileSystem() machinery.Filesystem { return machinery.Filesystem{FS: afero.NewOsFs()} }

// unfetched is what kubebuilder says if it does not download dependencies: kapokPlugin does.
const unfetched = "skipping fetching dependencies"

// plain is a slog.Handler that writes messages as lines, without times.
type plain struct {
	out interface{ Write([]byte) (int, error) }
}

func (plain) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

func (p plain) Handle(_ context.Context, r slog.Record) error {
	if r.Message == unfetched {
		return nil
	}
	line := "  " + r.Message
	if r.Level >= slog.LevelWarn {
		line = r.Level.String() + ": " + r.Message
	}
	r.Attrs(func(a slog.Attr) bool {
		line += fmt.Sprintf(" %s=%v", a.Key, a.Value)
		return true
	})
	_, err := fmt.Fprintln(p.out, line)
	return err
}

func (p plain) WithAttrs([]slog.Attr) slog.Handler { return p }
func (p plain) WithGroup(string) slog.Handler      { return p }
