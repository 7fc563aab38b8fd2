package pebble

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// disk is the file system that pebble sees. It freezes with the first write that
// fails.
//
// Pebble ends the process, panics or waits for ever when it cannot write; a
// server that embeds it may not. So no write fails in its eyes. The first error
// is kept, and from then on nothing changes on the real files: they stay as a
// crash at that moment would have left them, which is what recovery is made for.
// Whatever is written later goes to files in memory, where pebble finds it again,
// so that it goes on, and can be closed, as if nothing had happened. Who must know
// is the journal: it asks err after each sync, and acknowledges nothing that
// happened after the first error.
//
// Errors of reading are passed on as they are.
type disk struct {
	vfs.FS // the real files
	log    *slog.Logger
	after  *vfs.MemFS // what was written after the failure
	failed atomic.Pointer[error]
}

func newDisk(files vfs.FS, log *slog.Logger) *disk {
	return &disk{FS: files, log: log, after: vfs.NewMem()}
}

// err returns the error that has frozen the files, nil if they are not.
func (d *disk) err() error {
	if p := d.failed.Load(); p != nil {
		return *p
	}
	return nil
}

// fail freezes the files.
func (d *disk) fail(err error) {
	if d.failed.CompareAndSwap(nil, &err) {
		d.log.Error("journal cannot write to its files and takes no more writes", "error", err)
	}
}

// change runs what changes the real files, or freezes them; then it runs the
// same on those in memory, if there is anything to do.
func (d *disk) change(real, memory func() error) error {
	if d.err() == nil {
		err := real()
		if err == nil {
			return nil
		}
		d.fail(err)
	}
	_ = memory() // a file that was not changed since the failure is not there
	return nil
}

func (d *disk) create(name string, real func() (vfs.File, error)) (vfs.File, error) {
	if d.err() == nil {
		f, err := real()
		if err == nil {
			return &file{File: f, disk: d, name: name}, nil
		}
		d.fail(err)
	}
	return d.createAfter(name)
}

func (d *disk) createAfter(name string) (vfs.File, error) {
	if err := d.after.MkdirAll(d.PathDir(name), 0o700); err != nil {
		return nil, err
	}
	return d.after.Create(name, vfs.WriteCategoryUnspecified)
}

// Create implements [vfs.FS], as do the methods below.
func (d *disk) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return d.create(name, func() (vfs.File, error) { return d.FS.Create(name, c) })
}

func (d *disk) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return d.create(name, func() (vfs.File, error) { return d.FS.OpenReadWrite(name, c, opts...) })
}

func (d *disk) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return d.create(newname, func() (vfs.File, error) { return d.FS.ReuseForWrite(oldname, newname, c) })
}

func (d *disk) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	if d.err() != nil {
		if f, err := d.after.Open(name); err == nil {
			return f, nil
		}
	}
	return d.FS.Open(name, opts...)
}

func (d *disk) OpenDir(name string) (vfs.File, error) {
	f, err := d.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &file{File: f, disk: d, name: name}, nil
}

func (d *disk) Stat(name string) (vfs.FileInfo, error) {
	if d.err() != nil {
		if info, err := d.after.Stat(name); err == nil {
			return info, nil
		}
	}
	return d.FS.Stat(name)
}

func (d *disk) Link(oldname, newname string) error {
	return d.change(func() error { return d.FS.Link(oldname, newname) },
		func() error { return d.after.Link(oldname, newname) })
}

func (d *disk) Rename(oldname, newname string) error {
	return d.change(func() error { return d.FS.Rename(oldname, newname) },
		func() error { return d.after.Rename(oldname, newname) })
}

func (d *disk) Remove(name string) error {
	if d.err() == nil {
		// A file that stays does no harm: pebble removes it when it is opened.
		return d.FS.Remove(name)
	}
	_ = d.after.Remove(name)
	return nil
}

func (d *disk) MkdirAll(name string, perm os.FileMode) error {
	return d.change(func() error { return d.FS.MkdirAll(name, perm) },
		func() error { return d.after.MkdirAll(name, perm) })
}

// GetDiskUsage paces the removal of files; it is no reason to fail.
func (d *disk) GetDiskUsage(path string) (vfs.DiskUsage, error) {
	usage, err := d.FS.GetDiskUsage(path)
	if err != nil {
		return usage, errors.Join(vfs.ErrUnsupported, err)
	}
	return usage, nil
}

func (d *disk) Unwrap() vfs.FS { return d.FS }

// file is an open file. It is written by one goroutine at a time.
type file struct {
	vfs.File // the real one
	disk     *disk
	name     string
	size     int64    // how much has been written to the real one
	after    vfs.File // what it is since the failure; nil until it is written then
}

func (f *file) Write(p []byte) (int, error) {
	if f.disk.err() == nil {
		n, err := f.File.Write(p)
		if err == nil {
			f.size += int64(n)
			return n, nil
		}
		f.disk.fail(err)
	}
	if f.after == nil {
		if err := f.moveToMemory(); err != nil {
			return len(p), nil // it cannot be read again, which pebble will notice
		}
	}
	return f.after.Write(p)
}

// moveToMemory begins a copy of the file in memory, to write on there.
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
	return len(p), f.flush(func() error { _, err := f.File.WriteAt(p, at); return err })
}

// flush runs what makes earlier writes durable, or freezes the files.
func (f *file) flush(sync func() error) error {
	if f.disk.err() == nil {
		if err := sync(); err != nil {
			f.disk.fail(err)
		}
	}
	return nil
}

func (f *file) Sync() error     { return f.flush(f.File.Sync) }
func (f *file) SyncData() error { return f.flush(f.File.SyncData) }

func (f *file) SyncTo(length int64) (full bool, err error) {
	err = f.flush(func() (err error) { full, err = f.File.SyncTo(length); return err })
	return full, err
}

func (f *file) Preallocate(offset, length int64) error {
	return f.flush(func() error { return f.File.Preallocate(offset, length) })
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
