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
//
// At first a disk removes no files: what pebble takes for needless after opening
// damaged files may be all that is left of them. Once what is there has been read
// back, release removes what has been put off.
type disk struct {
	vfs.FS // the real files
	log    *slog.Logger
	syncs  *atomic.Int64
	after  *vfs.MemFS // what was written after the failure
	failed atomic.Pointer[error]
	ops    sync.RWMutex // read-held while the real files change

	mu struct {
		sync.Mutex
		onFail func(error)         // called once; see watch
		keep   bool                // files are not removed
		kept   map[string]struct{} // those that pebble thinks are gone
		made   []string            // files made, in order
		list   listState
	}
}

// listState is how far pebble has come with a new list of its files, which it begins
// once after opening. A list is in use when a marker file names it.
type listState int

const (
	listOld     listState = iota
	listNew               // the marker is there
	listDurable           // and will be after a crash
)

func newDisk(files vfs.FS, log *slog.Logger, syncs *atomic.Int64) *disk {
	d := &disk{FS: files, log: log, syncs: syncs, after: vfs.NewMem()}
	d.mu.keep, d.mu.kept = true, map[string]struct{}{}
	return d
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

// watch has a function called when the files freeze, or now if they are frozen. It
// is called by whoever writes, and must not block.
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

// real runs what changes the real files, unless they are frozen; done says that it
// has succeeded.
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

// quiet says whether the files are frozen, and whatever was changing them then has
// come to its end.
func (d *disk) quiet() bool {
	if d.err() == nil || !d.ops.TryLock() {
		return false
	}
	d.ops.Unlock()
	return true
}

// change runs what changes the real files, or freezes them; then it runs the
// same on those in memory, if there is anything to do.
func (d *disk) change(real, memory func() error) error {
	if !d.real(real) {
		_ = memory() // a file that was not changed since the failure is not there
	}
	return nil
}

func (d *disk) create(name string, real func() (vfs.File, error)) (f vfs.File, err error) {
	done := d.real(func() (err error) {
		if d.isMarker(name) {
			// The list that it names must not be lost where the marker is not, and
			// pebble syncs the directory only once, after both.
			if err := syncDir(d.FS, d.PathDir(name)); err != nil {
				return err
			}
		}
		f, err = real()
		d.made(name) // whatever the error: it may be there
		return err
	})
	if !done {
		return d.createAfter(name)
	}
	return &file{File: f, disk: d, name: name}, nil
}

// isMarker says whether a file names the list of pebble's files that is in use.
func (d *disk) isMarker(name string) bool {
	return strings.HasPrefix(d.PathBase(name), "marker.manifest.")
}

// made notes that a file is there, or may be.
func (d *disk) made(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.mu.kept, name)
	d.mu.made = append(d.mu.made, name)
	if d.isMarker(name) {
		d.mu.list = listNew
	}
}

// synced notes that the directory has been synced.
func (d *disk) synced() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mu.list == listNew {
		d.mu.list = listDurable
	}
}

// rebased says whether pebble has begun a new list of its files, durably: then
// nothing that it found when it was opened matters any more.
func (d *disk) rebased() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mu.list == listDurable
}

// release removes the files whose removal was put off.
func (d *disk) release() {
	d.mu.Lock()
	kept := d.mu.kept
	d.mu.keep, d.mu.kept = false, nil
	d.mu.Unlock()
	for name := range kept {
		_ = d.Remove(name) // a file that stays is removed when the store is opened next
	}
}

// undo removes the files made, if they are of no use: a store that could not be
// opened must not fill the disk. If they may be of use, it adds them to leftovers,
// and removes those of earlier stores among them that they have taken the place of.
// The disk must be frozen, and pebble be done.
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

func (d *disk) Link(oldname, newname string) error {
	return d.change(func() error { return d.FS.Link(oldname, newname) },
		func() error { return d.after.Link(oldname, newname) })
}

func (d *disk) Rename(oldname, newname string) error {
	return d.change(func() error {
		err := d.FS.Rename(oldname, newname)
		d.made(newname) // whatever the error, as above
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
		// A file that stays does no harm: pebble removes it when it is opened.
		return d.FS.Remove(name)
	}
	_ = d.after.Remove(name)
	return nil
}

// Lock does nothing: the Journal holds the lock, whichever store is open.
func (d *disk) Lock(string) (io.Closer, error) { return io.NopCloser(nil), nil }

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
