package pebble

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// disk is the file system that pebble uses. It freezes at the first write that fails.
//
// When pebble cannot write, it ends the process, panics or waits forever, which is unacceptable for
// a server that embeds it. Therefore pebble never sees a failed write. The disk keeps the first
// error, and from then on the real files do not change: they stay as a crash at that moment would
// have left them, a state that recovery handles. Later writes go to files in memory, where pebble
// can read them, so that it continues and can be closed normally. The journal calls err after each
// sync, and acknowledges nothing that happened after the first error.
//
// Read errors are returned unchanged, except for those of listing a directory: pebble lists last
// when it opens a store, and if that fails, it closes objects that its own goroutines are using,
// which then panic.
//
// At first a disk removes no files: files that pebble considers obsolete after opening damaged ones
// may be the only copy of some data. Once the store has been read back, release removes them.
type disk struct {
	vfs.FS // the real files
	log    *slog.Logger
	syncs  *atomic.Int64
	after  *vfs.MemFS // files written after the failure
	failed atomic.Pointer[error]
	ops    sync.RWMutex // read-held while the real files are changed

	mu struct {
		sync.Mutex
		onFail func(error)         // called once; see watch
		keep   bool                // files are kept instead of removed
		kept   map[string]struct{} // files that pebble has removed
		made   []string            // created files, in order
		list   listState
	}
}

// listState is the progress of pebble with a new list of its files, which it starts once after
// opening. A list is in use when a marker file names it.
type listState int

const (
	listOld     listState = iota
	listNew               // the marker exists
	listDurable           // the marker survives a crash
)

func newDisk(files vfs.FS, log *slog.Logger, syncs *atomic.Int64) *disk {
	d := &disk{FS: files, log: log, syncs: syncs, after: vfs.NewMem()}
	d.mu.keep, d.mu.kept = true, map[string]struct{}{}
	return d
}

// err returns the error that froze the files, or nil if they are not frozen.
func (d *disk) err() error {
	if p := d.failed.Load(); p != nil {
		return *p
	}
	return nil
}

// fail freezes the files.
func (d *disk) fail(err error) {
	if !d.failed.CompareAndSwap(nil, &err) {
		return
	}
	d.mu.Lock()
	onFail := d.mu.onFail
	d.mu.onFail = nil
	d.mu.Unlock()
	if onFail != nil {
		onFail(err)
	}
}

// watch sets a function that is called when the files freeze, or at once if they are frozen. The
// goroutine that writes calls it, so it must not block.
func (d *disk) watch(onFail func(error)) {
	d.mu.Lock()
	if d.err() == nil {
		d.mu.onFail, onFail = onFail, nil
	}
	d.mu.Unlock()
	if onFail != nil {
		onFail(d.err())
	}
}

// real runs a change of the real files, unless they are frozen; done reports that it succeeded.
func (d *disk) real(change func() error) (done bool) {
	d.ops.RLock()
	defer d.ops.RUnlock()
	if d.err() != nil {
		return false
	}
	if err := change(); err != nil {
		d.fail(err)
		return false
	}
	return true
}

// quiet reports whether the files are frozen and no change of them is still running.
func (d *disk) quiet() bool {
	if d.err() == nil || !d.ops.TryLock() {
		return false
	}
	d.ops.Unlock()
	return true
}

// change runs a change of the real files; if that fails, it freezes them. Then it repeats the
// change on the files in memory, if there are any.
func (d *disk) change(real, memory func() error) error {
	if !d.real(real) {
		_ = memory() // a file that has not changed since the failure is not in memory
	}
	return nil
}

func (d *disk) create(name string, real func() (vfs.File, error)) (f vfs.File, err error) {
	done := d.real(func() (err error) {
		if d.isMarker(name) {
			// The list that the marker names must be durable before the marker is, and pebble syncs
			// the directory only once, after both.
			if err := syncDir(d.FS, d.PathDir(name)); err != nil {
				return err
			}
		}
		f, err = real()
		d.made(name) // even after an error: the file may exist
		return err
	})
	if !done {
		return d.createAfter(name)
	}
	return &file{File: f, disk: d, name: name}, nil
}

// isMarker reports whether a file names pebble's current list of files.
func (d *disk) isMarker(name string) bool {
	return strings.HasPrefix(d.PathBase(name), "marker.manifest.")
}

// made records that a file exists, or may exist.
func (d *disk) made(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.mu.kept, name)
	d.mu.made = append(d.mu.made, name)
	if d.isMarker(name) {
		d.mu.list = listNew
	}
}

// synced records that the directory has been synced.
func (d *disk) synced() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mu.list == listNew {
		d.mu.list = listDurable
	}
}

// rebased reports whether pebble has durably started a new list of its files: from then on no file
// from before the opening is needed.
func (d *disk) rebased() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mu.list == listDurable
}

// release removes the files whose removal was deferred.
func (d *disk) release() {
	d.mu.Lock()
	kept := d.mu.kept
	d.mu.keep, d.mu.kept = false, nil
	d.mu.Unlock()
	for name := range kept {
		_ = d.Remove(name) // a file that remains is removed when the store is opened next
	}
}

// undo removes the created files if they are not needed: a store that could not be opened must not
// fill the disk. If they may be needed, it adds them to leftovers, and removes the leftovers of
// earlier stores that they replace. The disk must be frozen, and pebble must be closed.
func (d *disk) undo(leftovers map[string]struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mu.list == listOld {
		for _, name := range d.mu.made {
			_ = d.FS.Remove(name)
		}
		return
	}
	for name := range d.mu.kept {
		if _, ours := leftovers[name]; ours && d.mu.list == listDurable {
			_ = d.FS.Remove(name)
			delete(leftovers, name)
		}
	}
	for _, name := range d.mu.made {
		leftovers[name] = struct{}{}
	}
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
	return &directory{file{File: f, disk: d, name: name}}, nil
}

func (d *disk) Stat(name string) (vfs.FileInfo, error) {
	if d.err() != nil {
		if info, err := d.after.Stat(name); err == nil {
			return info, nil
		}
	}
	return d.FS.Stat(name)
}

func (d *disk) List(dir string) ([]string, error) {
	names, err := d.FS.List(dir)
	if err != nil {
		d.fail(err)
	}
	return names, nil
}

func (d *disk) Link(oldname, newname string) error {
	return d.change(func() error { return d.FS.Link(oldname, newname) },
		func() error { return d.after.Link(oldname, newname) })
}

func (d *disk) Rename(oldname, newname string) error {
	return d.change(func() error {
		err := d.FS.Rename(oldname, newname)
		d.made(newname) // even after an error, as above
		return err
	},
		func() error { return d.after.Rename(oldname, newname) })
}

func (d *disk) Remove(name string) error {
	d.mu.Lock()
	if d.mu.keep && d.err() == nil {
		d.mu.kept[name] = struct{}{}
		d.mu.Unlock()
		return nil
	}
	d.mu.Unlock()
	d.ops.RLock()
	defer d.ops.RUnlock()
	if d.err() == nil {
		// A file that remains is harmless: pebble removes it when it opens the store.
		return d.FS.Remove(name)
	}
	_ = d.after.Remove(name)
	return nil
}

// Lock does nothing: the Journal holds the lock across its stores.
func (d *disk) Lock(string) (io.Closer, error) { return io.NopCloser(nil), nil }

func (d *disk) MkdirAll(name string, perm os.FileMode) error {
	return d.change(func() error { return d.FS.MkdirAll(name, perm) },
		func() error { return d.after.MkdirAll(name, perm) })
}

// GetDiskUsage paces the removal of files; an error does not freeze the disk.
func (d *disk) GetDiskUsage(path string) (vfs.DiskUsage, error) {
	usage, err := d.FS.GetDiskUsage(path)
	if err != nil {
		return usage, errors.Join(vfs.ErrUnsupported, err)
	}
	return usage, nil
}

func (d *disk) Unwrap() vfs.FS { return d.FS }
