// Package beneath reads and writes files below a directory that others change at the same time. A
// name is a path relative to an os.Root, and no part of it may be a symbolic link: what an os.Root
// alone permits, a link to another place below the same directory, is an error. Files are regular
// files; pipes and devices are errors, and are never waited for.
//
// A directory or file that is replaced between two steps of a function is an error, or is the one
// that was there before. Functions have no state and start no goroutine.
package beneath

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Dir opens a directory. The caller closes it.
func Dir(in *os.Root, name string) (*os.Root, error) { return walk(in, name, false) }

// MakeDir opens a directory, and makes it and those above it if they do not exist, for this user
// only. The caller closes it.
func MakeDir(in *os.Root, name string) (*os.Root, error) { return walk(in, name, true) }

func walk(in *os.Root, name string, create bool) (*os.Root, error) {
	current, err := in.OpenRoot(".")
	if err != nil {
		return nil, err
	}
	for part := range strings.SplitSeq(filepath.ToSlash(name), "/") {
		if part == ".." {
			current.Close()
			return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
		}
		if part == "" || part == "." {
			continue
		}
		next, err := enter(current, part, create)
		current.Close()
		if err != nil {
			return nil, err
		}
		current = next
	}
	return current, nil
}

// enter opens a directory directly below another one.
func enter(in *os.Root, name string, create bool) (*os.Root, error) {
	if create {
		if err := in.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
	before, err := in.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !before.IsDir() {
		return nil, fmt.Errorf("%s is not a directory: %w", filepath.Join(in.Name(), name), fs.ErrInvalid)
	}
	next, err := in.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	after, err := next.Stat(".")
	if err != nil || !os.SameFile(before, after) {
		next.Close()
		return nil, errors.Join(err, fmt.Errorf("%s has been replaced: %w", filepath.Join(in.Name(), name), fs.ErrInvalid))
	}
	return next, nil
}

// Open opens a file that exists, with flags such as os.O_RDONLY.
func Open(in *os.Root, name string, flag int) (*os.File, error) {
	dir, err := Dir(in, filepath.Dir(name))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	name = filepath.Base(name)
	before, err := dir.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !before.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file: %w", filepath.Join(dir.Name(), name), fs.ErrInvalid)
	}
	f, err := dir.OpenFile(name, flag|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	after, err := f.Stat()
	if err != nil || !os.SameFile(before, after) {
		f.Close()
		return nil, errors.Join(err, fmt.Errorf("%s has been replaced: %w", f.Name(), fs.ErrInvalid))
	}
	return f, nil
}

// Read reads a file of at most limit bytes.
func Read(in *os.Root, name string, limit int64) ([]byte, error) {
	f, err := Open(in, name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		return nil, fmt.Errorf("%s is longer than %d bytes: %w", f.Name(), limit, fs.ErrInvalid)
	}
	return data, err
}

// Create makes a file that must not exist, in a directory that must, with a mode, and writes it.
func Create(in *os.Root, name string, data []byte, mode fs.FileMode) error {
	dir, err := Dir(in, filepath.Dir(name))
	if err != nil {
		return err
	}
	defer dir.Close()
	f, err := dir.OpenFile(filepath.Base(name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Chmod(mode), f.Close())
}

// Replace puts a file, for this user only, in the place of whatever has its name, but a directory,
// in one step. With sync, it is on the disk when Replace returns. The directory must exist.
func Replace(in *os.Root, name string, data []byte, sync bool) error {
	dir, err := Dir(in, filepath.Dir(name))
	if err != nil {
		return err
	}
	defer dir.Close()
	name = filepath.Base(name)
	temporary := name + "." + rand.Text()
	f, err := dir.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, bytes.NewReader(data))
	if err == nil && sync {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = dir.Rename(temporary, name)
	}
	if err != nil {
		return errors.Join(err, dir.Remove(temporary))
	}
	if !sync {
		return nil
	}
	return Sync(dir)
}

// Sync writes a directory to the disk.
func Sync(dir *os.Root) error {
	d, err := dir.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// RemoveAll removes a file or a directory with all that is in it, if it exists. Directories that
// this user may not change, as in a cache of modules, are made writable first.
func RemoveAll(in *os.Root, name string) error {
	dir, err := Dir(in, filepath.Dir(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	name = filepath.Base(name)
	top, err := enter(dir, name, false)
	if err != nil {
		return dir.RemoveAll(name) // not a directory, or one that cannot be read
	}
	flatten(top, false)
	top.Close()
	if err := dir.RemoveAll(name); !errors.Is(err, fs.ErrPermission) {
		return err
	}
	if top, err = enter(dir, name, false); err == nil {
		flatten(top, true)
		top.Close()
	}
	return dir.RemoveAll(name)
}

// maxDepth is the number of directories in each other that are removed at once: each takes a
// descriptor.
const maxDepth = 64

// flatten moves directories that are deeper than maxDepth to the top, and with unlock makes all
// writable for their owner. What fails is found when they are removed.
func flatten(top *os.Root, unlock bool) {
	queue := []string{"."}
	var walk func(dir *os.Root, path string, depth int)
	walk = func(dir *os.Root, path string, depth int) {
		if unlock {
			_ = dir.Chmod(".", 0o700)
		}
		d, err := dir.Open(".")
		if err != nil {
			return
		}
		entries, _ := d.ReadDir(-1)
		d.Close()
		for _, e := range entries {
			if !e.IsDir() {
				continue
			}
			if unlock {
				_ = dir.Chmod(e.Name(), 0o700) // of a link, a directory below dir
			}
			if depth == maxDepth {
				if moved := rand.Text(); top.Rename(filepath.Join(path, e.Name()), moved) == nil {
					queue = append(queue, moved)
				}
				continue
			}
			if sub, err := enter(dir, e.Name(), false); err == nil {
				walk(sub, filepath.Join(path, e.Name()), depth+1)
				sub.Close()
			}
		}
	}
	for ; len(queue) > 0; queue = queue[1:] {
		if dir, err := enter(top, queue[0], false); err == nil {
			walk(dir, queue[0], 1)
			dir.Close()
		}
	}
}
