package dev

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// An area is the files of which a change needs the same.
type area int

const (
	other   area = iota
	source       // Go code: everything
	config       // manifests: apply
	samples      // apply the samples
)

// areaOf returns the area of a file of the project, by its path with slashes.
func areaOf(name string) area {
	base := path.Base(name)
	switch {
	case strings.HasSuffix(base, "_test.go"):
		return other
	case path.Ext(base) == ".go", base == "go.mod", base == "go.sum", base == "go.work":
		return source
	case strings.HasPrefix(name, samplesDir+"/"):
		return samples
	case strings.HasPrefix(name, "config/"), name == "PROJECT":
		return config
	}
	return other
}

// samplesDir has the samples of a project.
const samplesDir = "config/samples"

// A stamp tells whether a file has changed.
type stamp struct {
	size    int64
	changed time.Time
}

// files are the files of a project that matter.
type files map[string]stamp

// look returns the files of the project below a directory. Directories that are no part of its
// source are skipped, and those that start with a dot or an underscore, as the go command does.
func look(root string) (files, error) {
	found := files{}
	err := filepath.WalkDir(root, func(at string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // it has just been removed
		case err != nil:
			return err
		case at == root:
			return nil
		}
		name := entry.Name()
		if entry.IsDir() {
			switch {
			case strings.HasPrefix(name, "."), strings.HasPrefix(name, "_"), name == "bin", name == "dist",
				name == "node_modules", name == "testdata", name == "vendor":
				return fs.SkipDir
			}
			return nil
		}
		relative, err := filepath.Rel(root, at)
		if err != nil {
			return err
		}
		relative = filepath.ToSlash(relative)
		if areaOf(relative) == other {
			return nil
		}
		info, err := entry.Info()
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		}
		found[relative] = stamp{info.Size(), info.ModTime()}
		return nil
	})
	return found, err
}

// changes are the files that differ between two looks, and their areas.
type changes struct {
	areas map[area]bool
	names []string
}

func (f files) changesTo(after files) changes {
	c := changes{areas: map[area]bool{}}
	for name, was := range f {
		if is, ok := after[name]; !ok || is != was {
			c.add(name)
		}
	}
	for name := range after {
		if _, ok := f[name]; !ok {
			c.add(name)
		}
	}
	return c
}

// without returns the changes of other files than the given ones.
func (c changes) without(names map[string]bool) changes {
	rest := changes{areas: map[area]bool{}}
	for _, name := range c.names {
		if !names[name] {
			rest.add(name)
		}
	}
	return rest
}

func (c *changes) add(name string) {
	c.areas[areaOf(name)] = true
	c.names = append(c.names, name)
}

// String names the first file, and the number of the others.
func (c changes) String() string {
	if len(c.names) == 0 {
		return "nothing"
	}
	first := slices.Min(c.names)
	if more := len(c.names) - 1; more > 0 {
		return fmt.Sprintf("%s and %d more", first, more)
	}
	return first
}
