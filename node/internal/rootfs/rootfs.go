// Package rootfs unpacks the layers of an image into a directory, in order: a Tree is the root
// directory of the image.
//
//	t := rootfs.New(root, rootfs.Limits{Bytes: 10 << 30, Entries: 1 << 20})
//	for _, layer := range layers { err := t.Apply(layer) }
//	err := t.Finish()
//
// Archives come from others. All paths, targets of hard links, and symbolic links on the way to
// them are resolved as below a root directory, by functions of os.Root: no archive reads or changes
// a file outside of the directory. The sizes and the number of entries are limited, whatever the
// headers say.
//
// # What is unpacked
//
// Regular files, directories, symbolic links and hard links with their permissions and times. Files
// belong to the user of this process. The bits setuid and setgid, extended attributes, devices and
// pipes are left out. Whiteouts of the OCI image specification (.wh.NAME and .wh..wh..opq) remove
// what earlier layers have.
//
// A Tree is not safe for concurrent use, and nothing else may change the directory until Finish has
// returned.
package rootfs

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"time"
)

const (
	whiteout = ".wh."
	opaque   = ".wh..wh..opq"
	// maxParts is the maximum number of parts of a path, with those of the links that it goes through.
	maxParts = 4096
	// maxDepth is the maximum number of directories that are in each other. Functions of os.Root open
	// all of them one after the other, and RemoveAll at the same time.
	maxDepth = 256
)

var (
	// ErrTooLarge is the error for an image beyond its limits.
	ErrTooLarge = errors.New("the image is too large")

	errDeep = errors.New("the path has too many parts")
)

// Limits bound an image. Both are required.
type Limits struct {
	Bytes   int64 // of all files, and of all archives without compression
	Entries int   // of all archives, and directories that have no entry
}

// A Tree is a root directory that is being unpacked.
type Tree struct {
	root *os.Root
	// archives is the number of bytes of archives, and entries that of entries, that are left.
	archives int64
	entries  int
	files    int64                // the number of bytes of files that are left
	written  int64                // the number of bytes of files
	dirs     map[string]directory // by their paths; their permissions and times are set last
}

type directory struct {
	mode fs.FileMode
	time time.Time
}

// New returns a Tree for an empty directory.
func New(root *os.Root, l Limits) *Tree {
	return &Tree{root: root, archives: l.Bytes, entries: l.Entries, files: l.Bytes, dirs: map[string]directory{}}
}

// Written returns the number of bytes of the files of all layers.
func (t *Tree) Written() int64 { return t.written }

// A layer is an archive that is being applied.
type layer struct {
	*Tree
	own map[string]bool // the paths of the layer, and of the directories above them: whiteouts do not remove them
	// hidden are the directories of the layer that have nothing of earlier ones: whiteouts have
	// nothing to do there.
	hidden map[string]bool
}

// Apply unpacks the archive of a layer, without compression, and reads it to its end.
func (t *Tree) Apply(archive io.Reader) error {
	limited := &limited{from: archive, left: &t.archives}
	l := &layer{Tree: t, own: map[string]bool{}, hidden: map[string]bool{}}
	for r := tar.NewReader(limited); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if t.entries--; t.entries < 0 {
			return fmt.Errorf("%w: it has too many entries", ErrTooLarge)
		}
		if err := l.entry(h, r); err != nil {
			return fmt.Errorf("unpack %q: %w", h.Name, err)
		}
	}
	_, err := io.Copy(io.Discard, limited) // the rest belongs to the digest of the layer
	return err
}

// limited is a reader that fails when nothing is left.
type limited struct {
	from io.Reader
	left *int64
}

func (l *limited) Read(p []byte) (int, error) {
	n, err := l.from.Read(p)
	if *l.left -= int64(n); *l.left < 0 {
		return n, fmt.Errorf("%w: more bytes than are permitted", ErrTooLarge)
	}
	return n, err
}

// entry unpacks an entry.
func (l *layer) entry(h *tar.Header, content io.Reader) error {
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeCont, tar.TypeGNUSparse, tar.TypeDir, tar.TypeSymlink, tar.TypeLink:
	default:
		return nil
	}
	name, err := l.place(h.Name)
	if err != nil {
		return err
	}
	if base := path.Base(name); strings.HasPrefix(base, whiteout) {
		return l.remove(path.Dir(name), base)
	}
	l.note(name)
	mode := fs.FileMode(h.Mode) & fs.ModePerm
	if h.Mode&0o1000 != 0 {
		mode |= fs.ModeSticky
	}
	if h.Typeflag == tar.TypeDir {
		return l.directory(name, mode, h.ModTime)
	}
	if name == "." {
		return errors.New("the root must be a directory")
	}
	if h.Typeflag == tar.TypeLink {
		return l.link(name, h.Linkname)
	}
	if err := l.clear(name); err != nil {
		return err
	}
	if h.Typeflag != tar.TypeSymlink {
		return l.file(name, mode, h.ModTime, content)
	}
	if h.Linkname == "" || strings.Contains(h.Linkname, "\x00") {
		return fmt.Errorf("invalid target of a link: %q", h.Linkname)
	}
	return l.root.Symlink(h.Linkname, name)
}

// link makes a hard link.
func (l *layer) link(name, to string) error {
	target, err := l.place(to)
	if err != nil {
		return err
	}
	info, err := l.root.Lstat(target)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return fmt.Errorf("the target %q of a hard link is a directory", to)
	}
	if is, err := l.root.Lstat(name); err == nil && os.SameFile(info, is) {
		return nil
	}
	if err := l.clear(name); err != nil {
		return err
	}
	return l.root.Link(target, name)
}

// place returns where an entry belongs, and makes the directories above it.
func (l *layer) place(name string) (string, error) {
	if strings.Contains(name, "\x00") || strings.Count(name, "/") > maxParts {
		return "", fmt.Errorf("%q: %w", name, fs.ErrInvalid)
	}
	// .. is resolved as text, as in other tools: the archive has no other meaning for it.
	clean := path.Clean("/" + name)
	parent, err := Resolve(l.root, path.Dir(clean))
	if err != nil {
		return "", err
	}
	if err := l.above(parent); err != nil {
		return "", err
	}
	if clean == "/" {
		return ".", nil
	}
	return path.Join(parent, path.Base(clean)), nil
}

// above makes a directory with those above it. Each counts as an entry.
func (l *layer) above(dir string) error {
	for at := dir; at != "."; at = path.Dir(at) {
		_, err := l.root.Lstat(at)
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if l.entries--; l.entries < 0 {
			return fmt.Errorf("%w: it has too many directories", ErrTooLarge)
		}
	}
	return l.root.MkdirAll(dir, 0o755)
}

// note notes a path of this layer, with those above it.
func (l *layer) note(name string) {
	for ; name != "." && !l.own[name]; name = path.Dir(name) {
		l.own[name] = true
	}
}

// clear removes what is at a path.
func (l *layer) clear(name string) error {
	info, err := l.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return l.root.Remove(name)
	}
	err = fs.WalkDir(l.root.FS(), name, func(dir string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			delete(l.dirs, dir)
		}
		return err
	})
	return errors.Join(err, l.root.RemoveAll(name))
}

// directory makes a directory, or uses the one that is there. It is writable until Finish.
func (l *layer) directory(name string, mode fs.FileMode, at time.Time) error {
	info, err := l.root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = l.root.Mkdir(name, 0o700)
	case err == nil && !info.IsDir():
		if err = l.root.Remove(name); err == nil {
			err = l.root.Mkdir(name, 0o700)
		}
	}
	l.dirs[name] = directory{mode, at}
	return err
}

// file makes a regular file.
func (l *layer) file(name string, mode fs.FileMode, at time.Time, content io.Reader) error {
	f, err := l.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	n, err := io.Copy(f, io.LimitReader(content, l.files+1)) // a sparse file is larger than its part of the archive
	l.written += n
	if l.files -= n; err == nil && l.files < 0 {
		err = fmt.Errorf("%w: more bytes than are permitted", ErrTooLarge)
	}
	if err = errors.Join(err, f.Chmod(mode), f.Close()); err != nil {
		return err
	}
	if at.IsZero() {
		return nil
	}
	return l.root.Chtimes(name, at, at)
}

// remove carries out a whiteout in a directory.
func (l *layer) remove(dir, base string) error {
	if base == opaque {
		return l.hideAll(dir)
	}
	name := strings.TrimPrefix(base, whiteout)
	if name == "" || name == "." || name == ".." {
		return fmt.Errorf("invalid whiteout: %w", fs.ErrInvalid)
	}
	return l.hide(path.Join(dir, name))
}

// hide removes what earlier layers have at a path.
func (l *layer) hide(name string) error {
	if !l.own[name] {
		return l.clear(name)
	}
	info, err := l.root.Lstat(name)
	if err != nil || !info.IsDir() {
		return nil
	}
	return l.hideAll(name)
}

// hideAll removes what earlier layers have in a directory.
func (l *layer) hideAll(dir string) error {
	if l.hidden[dir] {
		return nil
	}
	d, err := l.root.Open(dir)
	if err != nil {
		return err
	}
	names, err := d.Readdirnames(-1)
	if err = errors.Join(err, d.Close()); err != nil {
		return err
	}
	for _, name := range names {
		if err := l.hide(path.Join(dir, name)); err != nil {
			return err
		}
	}
	l.hidden[dir] = true
	return nil
}

// Finish sets the permissions and times of directories, those below others first.
func (t *Tree) Finish() error {
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(t.dirs))) {
		d := t.dirs[name]
		// The owner can list and remove what is in it, so that the image can be removed.
		if err := t.root.Chmod(name, d.mode|0o700); err != nil {
			return err
		}
		if !d.time.IsZero() {
			if err := t.root.Chtimes(name, d.time, d.time); err != nil {
				return err
			}
		}
	}
	return nil
}
