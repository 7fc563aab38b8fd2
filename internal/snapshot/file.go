package snapshot

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// WriteFile creates the file of a snapshot with the content that write writes. The file is complete
// or does not exist, also after a crash: it gets its name, and replaces an older file, after it has
// been read back and synced. Only its owner can read it.
func WriteFile(path string, write func(io.Writer) error) (_ Summary, err error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return Summary{}, &fs.PathError{Op: "write", Path: path, Err: fmt.Errorf("not a regular file")}
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // with mode 0600
	if err != nil {
		return Summary{}, err
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
		}
	}()
	if err := write(f); err != nil {
		return Summary{}, err
	}
	r, err := Open(f)
	if err != nil {
		return Summary{}, err
	}
	summary, err := r.Summary()
	if err != nil {
		return Summary{}, err
	}
	if err := f.Sync(); err != nil {
		return Summary{}, err
	}
	if err := f.Close(); err != nil {
		return Summary{}, err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return Summary{}, err
	}
	return summary, syncDir(filepath.Dir(path))
}

// syncDir makes the names in a directory durable.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil // directories cannot be synced there
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
