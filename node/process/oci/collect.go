package oci

import (
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/kapok-dev/kapok/node/internal/beneath"
)

// youngest is the time for which an image is kept after its last use, however full the disk is:
// between the pull and the start of its container no list has it.
const youngest = 2 * time.Minute

// unused is an image that no container uses.
type unused struct {
	id, dir string
	last    time.Time // the last use
}

// Collect implements process.ImageStore.
func (s *Store) Collect(inUse func(id string) bool) error {
	if err := s.begin(); err != nil {
		return err
	}
	all, err := s.unused(inUse)
	if err != nil {
		return err
	}
	now := time.Now()
	var failed []error
	all = slices.DeleteFunc(all, func(u unused) bool {
		if age := now.Sub(u.last); s.options.Unused < 0 || age < s.options.Unused {
			return age < youngest
		}
		failed = append(failed, s.remove(u))
		return true
	})
	limit := s.options.High
	for _, u := range all {
		full, err := s.usage(s.options.Dir)
		if err != nil || full <= limit {
			failed = append(failed, err)
			break
		}
		failed = append(failed, s.remove(u))
		limit = s.options.Low
	}
	return errors.Join(append(failed, s.forget())...)
}

// unused returns the images that no container uses, the one that was not used for the longest time
// first.
func (s *Store) unused(inUse func(id string) bool) ([]unused, error) {
	entries, err := fs.ReadDir(s.root.FS(), "images")
	if err != nil {
		return nil, err
	}
	var all []unused
	for _, e := range entries {
		id := "sha256:" + e.Name()
		dir, ok := dirOf(id)
		if !ok || inUse(id) {
			continue
		}
		u := unused{id: id, dir: dir}
		if info, err := s.root.Lstat(filepath.Join(dir, "image.json")); err == nil {
			u.last = info.ModTime()
		}
		all = append(all, u)
	}
	slices.SortFunc(all, func(a, b unused) int { return a.last.Compare(b.last) })
	return all, nil
}

// remove removes an image, unless it has been used in between.
func (s *Store) remove(u unused) error {
	tmp := filepath.Join("tmp", filepath.Base(u.dir))
	s.mu.Lock()
	if info, err := s.root.Lstat(filepath.Join(u.dir, "image.json")); err == nil && !info.ModTime().Equal(u.last) {
		s.mu.Unlock()
		return nil
	}
	err := s.root.Rename(u.dir, tmp)
	s.mu.Unlock()
	if err != nil {
		return err
	}
	return beneath.RemoveAll(s.root, tmp)
}

// forget removes the references to images that do not exist.
func (s *Store) forget() error {
	entries, err := fs.ReadDir(s.root.FS(), "references")
	if err != nil {
		return err
	}
	var failed []error
	for _, e := range entries {
		name := filepath.Join("references", e.Name())
		data, err := beneath.Read(s.root, name, longestRecord)
		var r reference
		if err == nil && json.Unmarshal(data, &r) == nil {
			if dir, ok := dirOf(r.ID); ok {
				if _, err := s.root.Lstat(dir); err == nil {
					continue
				}
			}
		}
		failed = append(failed, beneath.RemoveAll(s.root, name))
	}
	return errors.Join(failed...)
}
