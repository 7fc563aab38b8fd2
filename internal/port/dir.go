package port

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// A Change is a file that has been rewritten.
type Change struct {
	Name          string // relative to the directory, with slashes
	Before, After []byte
}

// Dir rewrites the Go files of a module in memory: those that the go tool sees below dir, including
// tests, but not vendor, testdata and nested modules. A file that does not parse is part of the
// error, and does not keep the others from being rewritten.
func Dir(dir fs.FS) (changes []Change, findings []Finding, err error) {
	var broken []error
	err = fs.WalkDir(dir, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && isSkipped(dir, name):
			return fs.SkipDir
		case !d.Type().IsRegular() || !strings.HasSuffix(name, ".go"):
			return nil
		}
		src, err := fs.ReadFile(dir, name)
		if err != nil {
			return err
		}
		if !bytes.Contains(src, []byte(From)) {
			return nil
		}
		moved, found, err := File(name, src)
		if err != nil {
			broken = append(broken, err)
			return nil
		}
		findings = append(findings, found...)
		if !bytes.Equal(moved, src) {
			changes = append(changes, Change{name, src, moved})
		}
		return nil
	})
	return changes, findings, errors.Join(append(broken, err)...)
}

func isSkipped(dir fs.FS, name string) bool {
	base := path.Base(name)
	if base == "vendor" || base == "testdata" || base[0] == '.' || base[0] == '_' {
		return true
	}
	_, err := fs.Stat(dir, path.Join(name, "go.mod"))
	return err == nil
}

// Write writes the files of changes below a directory, and keeps their permissions. It returns an
// error for a file that changed since Dir read it, and leaves the files after it as they are.
func Write(dir string, changes []Change) error {
	for _, c := range changes {
		name := filepath.Join(dir, filepath.FromSlash(c.Name))
		now, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if !bytes.Equal(now, c.Before) {
			return fmt.Errorf("%s changed while it was being rewritten: run again", c.Name)
		}
		if err := replace(name, c.After); err != nil {
			return err
		}
	}
	return nil
}

// replace replaces a file atomically.
func replace(name string, data []byte) error {
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	temp, err := os.CreateTemp(filepath.Dir(name), ".port-*")
	if err != nil {
		return err
	}
	_, err = temp.Write(data)
	err = errors.Join(err, temp.Close())
	if err == nil {
		err = os.Chmod(temp.Name(), info.Mode().Perm())
	}
	if err == nil {
		err = os.Rename(temp.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temp.Name()))
	}
	return nil
}
