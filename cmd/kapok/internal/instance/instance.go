package instance

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
)

// Default is the name of the instance without a name.
const Default = "default"

// An Instance is a server with a name. It need not exist.
type Instance struct {
	Name string
	Dir  string // the data directory
}

// A Home has the instances of a user.
type Home struct{ Dir string }

// ErrNotExist is the error for an instance that has no directory.
var ErrNotExist = errors.New("does not exist")

var name = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// reserved are the subcommands of kapok delete.
var reserved = []string{"api", "webhook"}

// Named returns the instance with a name, which is a DNS label: it is a directory, and part of the
// name of a context.
func (h Home) Named(of string) (Instance, error) {
	switch {
	case !name.MatchString(of):
		return Instance{}, fmt.Errorf("instance %.80q: want a name of at most 63 lower-case letters, digits and dashes, which begins and ends with a letter or digit", of)
	case slices.Contains(reserved, of):
		return Instance{}, fmt.Errorf("instance %q: the name is reserved, as kapok delete %s means something else", of, of)
	case of == Default:
		return Instance{of, h.Dir}, nil
	}
	return Instance{of, filepath.Join(h.instances(), of)}, nil
}

func (h Home) instances() string { return filepath.Join(h.Dir, "instances") }

// List returns the instances that exist, by name; the default one first.
func (h Home) List() ([]Instance, error) {
	var all []Instance
	if of := (Instance{Default, h.Dir}); of.Exists() {
		all = append(all, of)
	}
	entries, err := os.ReadDir(h.instances())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		if of, err := h.Named(e.Name()); err == nil && e.IsDir() && of.Name != Default {
			all = append(all, of)
		}
	}
	return all, nil
}

// owned are the files in the directory of the default instance that make it exist. The directory
// itself exists as soon as another instance does.
var owned = []string{recordFile, "journal", "pki", "kubeconfig"}

// Exists reports whether an instance has data or runs.
func (i Instance) Exists() bool {
	if i.Name != Default {
		info, err := os.Stat(i.Dir)
		return err == nil && info.IsDir()
	}
	return slices.ContainsFunc(owned, func(file string) bool {
		_, err := os.Lstat(filepath.Join(i.Dir, file))
		return err == nil
	})
}

// Context is the name of the context of an instance in the user's kubeconfig.
func (i Instance) Context() string { return "kapok-" + i.Name }

// Log is the file with what the instance printed.
func (i Instance) Log() string { return filepath.Join(i.Dir, "kapok.log") }

// Delete removes the data of an instance that does not run. If it is interrupted, it can be
// repeated.
func (h Home) Delete(i Instance) error {
	if !i.Exists() {
		return ErrNotExist
	}
	lock, err := i.Lock()
	if err != nil {
		return err
	}
	defer lock.Release()
	if err := os.MkdirAll(h.instances(), 0o700); err != nil {
		return err
	}
	if err := h.sweep(); err != nil {
		return err
	}
	grave, err := os.MkdirTemp(h.instances(), ".deleted-"+i.Name+"-")
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(i.Dir)
	if err != nil {
		return err
	}
	keep := []string{lockFile}
	if i.Name == Default {
		keep = append(keep, homeLock, filepath.Base(h.instances()))
	}
	for _, e := range entries {
		if slices.Contains(keep, e.Name()) {
			continue
		}
		if err := os.Rename(filepath.Join(i.Dir, e.Name()), filepath.Join(grave, e.Name())); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(grave); err != nil {
		return err
	}
	// Another process may wait for the file: what it then locks has no path any more. Windows removes
	// no open files, and then none that the other process has opened.
	if at := filepath.Join(i.Dir, lockFile); os.Remove(at) != nil {
		lock.Release()
		_ = os.Remove(at)
	}
	if i.Name != Default {
		_ = os.Remove(i.Dir) // it has files again if the instance starts at this moment
	}
	return nil
}

// sweep removes what interrupted deletions left behind.
func (h Home) sweep() error {
	left, err := filepath.Glob(filepath.Join(h.instances(), ".deleted-*"))
	for _, dir := range left {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	return err
}
