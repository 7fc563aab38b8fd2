package pebble

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// ownerOnly makes the files of the machine's file system readable and writable by their owner only,
// whatever the umask, from the moment they exist.
type ownerOnly struct{ vfs.FS }

func (o ownerOnly) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	err := touch(name)
	if errors.Is(err, fs.ErrExist) {
		if err = os.Remove(name); err == nil {
			err = touch(name)
		}
	}
	if err != nil {
		return nil, err
	}
	return o.FS.OpenReadWrite(name, c)
}

func (o ownerOnly) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	if err := touch(name); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return o.FS.OpenReadWrite(name, c, opts...)
}

// Lock must not open an existing lock file: closing it would release the lock of a journal that
// this process has open.
func (o ownerOnly) Lock(name string) (io.Closer, error) {
	if err := touch(name); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return o.FS.Lock(name)
}

func (o ownerOnly) MkdirAll(name string, _ os.FileMode) error { return o.FS.MkdirAll(name, 0o700) }

func (o ownerOnly) Unwrap() vfs.FS { return o.FS }

// touch creates an empty file if it does not exist.
func touch(name string) error {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}
