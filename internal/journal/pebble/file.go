package pebble

import (
	"errors"
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// file is an open file. It is written by one goroutine at a time.
type file struct {
	vfs.File // the real file
	disk     *disk
	name     string
	size     int64    // bytes written to the real file
	after    vfs.File // its content since the failure; nil until it is written
}

func (f *file) Write(p []byte) (n int, err error) {
	done := f.disk.real(func() (err error) {
		n, err = f.File.Write(p)
		return err
	})
	if done {
		f.size += int64(n)
		return n, nil
	}
	if f.after == nil {
		if err := f.moveToMemory(); err != nil {
			return len(p), nil // the bytes cannot be read back, which pebble will notice
		}
	}
	return f.after.Write(p)
}

// Stat is called while pebble creates a log, where it does not handle errors.
func (f *file) Stat() (vfs.FileInfo, error) {
	if f.after == nil {
		info, err := f.File.Stat()
		if err == nil {
			return info, nil
		}
		f.disk.fail(err)
		if err := f.moveToMemory(); err != nil {
			return nil, err
		}
	}
	return f.after.Stat()
}

// moveToMemory starts a copy of the file in memory, to which later writes go.
func (f *file) moveToMemory() error {
	after, err := f.disk.createAfter(f.name)
	if err != nil {
		return err
	}
	if _, err := io.Copy(after, io.NewSectionReader(f.File, 0, f.size)); err != nil {
		return errors.Join(err, after.Close())
	}
	f.after = after
	return nil
}

func (f *file) WriteAt(p []byte, at int64) (int, error) {
	f.disk.real(func() error { _, err := f.File.WriteAt(p, at); return err })
	return len(p), nil
}

// sync makes earlier writes durable, or freezes the files.
func (f *file) sync(sync func() error) error {
	f.disk.syncs.Add(1)
	f.disk.real(sync)
	return nil
}

// directory is an open directory, whose sync makes the names of files durable.
type directory struct{ file }

func (d *directory) Sync() error {
	d.disk.syncs.Add(1)
	if d.disk.real(d.File.Sync) {
		d.disk.synced()
	}
	return nil
}

func (f *file) Sync() error     { return f.sync(f.File.Sync) }
func (f *file) SyncData() error { return f.sync(f.File.SyncData) }

func (f *file) SyncTo(length int64) (full bool, err error) {
	f.disk.real(func() (err error) { full, err = f.File.SyncTo(length); return err })
	return full, nil
}

func (f *file) Preallocate(offset, length int64) error {
	f.disk.real(func() error { return f.File.Preallocate(offset, length) })
	return nil
}

// Close closes the real file in any case, so that no handle is lost.
func (f *file) Close() error {
	if f.after != nil {
		_ = f.after.Close()
	}
	if err := f.File.Close(); err != nil {
		f.disk.fail(err)
	}
	return nil
}
