package simulation

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A disk is a file system in memory that loses unsynced data when the machine crashes. It
// implements vfs.FS, with slashes in names, for one machine at a time: crash returns the disk for
// the next one.
//
// Durability is decided for each sector: a sector that was written since the last sync of its file
// has, after a crash, its old or its new content, independently of others. Names are durable when
// their directory was synced; until then a crash keeps any of the changes, in order or not, but a
// rename happens as a whole. A failed sync drops the data that it should have written: reads still
// return it, further syncs succeed, and a crash loses it, as on Linux. Directories themselves are
// durable once they are created.
type disk struct {
	seed   seed
	faults *weather
	log    *events
	lies   string  // for files with this suffix,
	odds   float64 // this fraction of the syncs returns without any effect

	mu      sync.Mutex
	dead    bool              // after a crash
	doom    int               // number of changes until the crash; 0: none
	power   bool              // the crash keeps what was written
	crashed func(*disk)       // called at the crash with the disk for the next machine; must not use this one
	dirs    map[string]bool   // existing directories
	names   map[string]*inode // existing files
	durable map[string]*inode // the files without all changes since the syncs of their directories
	changes []rename          // of names since then, in order
	locks   map[string]bool
	counts  map[string]int // operations by kind and name
	size    int            // of the whole disk, while other programs fill it; 0: unlimited
	syncs   int
}

// sector is the unit of atomic writes.
const sector = 512

// An inode is the content of a file.
type inode struct {
	data    []byte       // as it is read
	durable []byte       // without all writes since the last sync
	dirty   map[int]bool // the sectors written since

	allocated int // bytes allocated on the disk, which can exceed the length
}

func (i *inode) takes() int { return max(len(i.data), i.allocated) }

// A rename changes names: from is removed, to is set to the inode. Either may be empty.
type rename struct {
	from, to string
	inode    *inode
}

var errDead = fmt.Errorf("the machine has crashed: %w", syscall.EIO)

func newDisk(s seed, w *weather, log *events) *disk {
	return &disk{seed: s, faults: w, log: log, dirs: map[string]bool{"/": true, ".": true}, names: map[string]*inode{}, durable: map[string]*inode{},
		locks: map[string]bool{}, counts: map[string]int{}}
}

// arm makes the machine crash during the nth change from now on; 0: never. With power, the crash
// keeps everything that was written, as if only the process were killed.
func (d *disk) arm(n int, power bool, crashed func(next *disk)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.doom, d.power, d.crashed = n, power, crashed
}

// crash makes the machine crash now, unless it has.
func (d *disk) crash(power bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.dead {
		d.crashed(d.crashLocked(power))
	}
}

func (d *disk) crashLocked(power bool) *disk {
	next := newDisk(d.seed.of("after"), d.faults, d.log)
	next.lies, next.odds, next.syncs = d.lies, d.odds, d.syncs
	next.dirs = maps.Clone(d.dirs)
	d.dead = true
	names := d.names
	if !power {
		names = d.survivors()
	}
	clones := map[*inode]*inode{}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		i := names[name]
		if clones[i] == nil {
			clones[i] = &inode{data: i.data, dirty: map[int]bool{}, allocated: i.allocated}
			if !power {
				clones[i].data = i.survivor(d.seed.of("data", path.Base(name)))
			}
			clones[i].data = slices.Clone(clones[i].data)
			clones[i].durable = slices.Clone(clones[i].data)
		}
		next.names[name] = clones[i]
	}
	if power { // the pages are still in memory, but not on the disk
		for i, c := range clones {
			c.durable, c.dirty = slices.Clone(i.durable), maps.Clone(i.dirty)
		}
		keep := func(i *inode) *inode {
			if clones[i] == nil {
				clones[i] = &inode{data: i.data, durable: i.durable, dirty: i.dirty, allocated: i.allocated}
			}
			return clones[i]
		}
		for name, i := range d.durable {
			next.durable[name] = keep(i)
		}
		for _, r := range d.changes {
			if r.inode != nil {
				r.inode = keep(r.inode)
			}
			next.changes = append(next.changes, r)
		}
	} else {
		next.durable = maps.Clone(next.names)
	}
	return next
}

// survivors returns the names after a crash.
func (d *disk) survivors() map[string]*inode {
	names := maps.Clone(d.durable)
	s := d.seed.of("names")
	// Most file systems keep the order of changes; POSIX does not require it.
	upTo, ordered := s.int("upTo", len(d.changes)+1), s.int("ordered", 2) == 0
	for n, r := range d.changes {
		if ordered && n < upTo || !ordered && s.int(fmt.Sprint("change", n), 2) == 0 {
			r.apply(names)
		}
	}
	return names
}

func (r rename) apply(names map[string]*inode) {
	if r.from != "" && (r.inode == nil || names[r.from] == r.inode) {
		delete(names, r.from)
	}
	if r.to != "" {
		names[r.to] = r.inode
	}
}

// survivor returns the content of a file after a crash: with none of the writes since the last
// sync, all of them, those up to some sector, or those of any set of sectors.
func (i *inode) survivor(s seed) []byte {
	sectors := slices.Sorted(maps.Keys(i.dirty))
	mode, upTo := s.int("mode", 4), s.int("upTo", len(sectors)+1)
	after := slices.Clone(i.durable)
	for n, at := range sectors {
		if mode == 1 || mode == 2 && n < upTo || mode == 3 && s.int(fmt.Sprint("sector", at), 2) == 0 {
			after = i.write(after, at)
		}
	}
	return after
}

// write writes a sector of the data to content, after zeros if content is shorter.
func (i *inode) write(content []byte, at int) []byte {
	from := at * sector
	if from >= len(i.data) {
		return content
	}
	to := min(from+sector, len(i.data))
	if len(content) < to {
		content = append(content, make([]byte, to-len(content))...)
	}
	copy(content[from:to], i.data[from:to])
	return content
}

// roomLocked returns the free space. On a filled disk the total is what it contained at that time,
// so that removals free space.
func (d *disk) roomLocked() (free, size int) {
	if !d.faults.filled() {
		d.size = 0
		return capacity, capacity
	}
	used, seen := 0, map[*inode]bool{}
	for _, i := range d.names {
		if !seen[i] {
			seen[i] = true
			used += i.takes()
		}
	}
	if d.size == 0 {
		d.size = used
	}
	return max(d.size-used, 0), d.size
}

// begin starts an operation: it delays it on a slow disk, and returns the injected error.
// Operations are counted by kind and name, and so have the same fate with the same seed,
// independently of others.
func (d *disk) begin(op, name string) error {
	d.mu.Lock()
	key := op + " " + path.Base(name)
	d.counts[key]++
	s := d.seed.of(key, d.counts[key])
	dead := d.dead
	d.mu.Unlock()
	if dead {
		return errDead
	}
	// Only syncs of logs, which writers wait for, are slow. Pebble performs some other operations
	// with locks held, and the clock of a bubble does not advance while a goroutine waits for a
	// lock.
	if op == "sync" && path.Ext(name) == ".log" {
		time.Sleep(d.faults.slow(s))
	}
	err := d.faults.err(op, s)
	if err != nil {
		d.log.add("disk: %s: %v", key, err)
	}
	return err
}

// change runs a change of the disk, unless the machine has crashed, or crashes now: then the change
// may have happened, or not.
func (d *disk) change(do func() error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead {
		return errDead
	}
	if d.doom == 1 {
		d.doom = 0
		if d.seed.of("doom").int(fmt.Sprint(d.syncs), 2) == 0 {
			_ = do()
		}
		d.crashed(d.crashLocked(d.power))
		return errDead
	}
	if d.doom > 1 {
		d.doom--
	}
	return do()
}

func (d *disk) rename(r rename) {
	r.apply(d.names)
	d.changes = append(d.changes, r)
}

func notExist(op, name string) error { return &os.PathError{Op: op, Path: name, Err: os.ErrNotExist} }

// Create implements vfs.FS, as do the methods below.
func (d *disk) Create(name string, _ vfs.DiskWriteCategory) (vfs.File, error) {
	name = path.Clean(name)
	if err := d.begin("create", name); err != nil {
		return nil, err
	}
	f := &file{disk: d, name: name, inode: &inode{dirty: map[int]bool{}}}
	return f, d.change(func() error {
		if !d.dirs[path.Dir(name)] {
			return notExist("create", name)
		}
		d.rename(rename{to: name, inode: f.inode})
		return nil
	})
}

func (d *disk) open(name string) (vfs.File, error) {
	name = path.Clean(name)
	d.mu.Lock()
	defer d.mu.Unlock()
	switch i := d.names[name]; {
	case d.dead:
		return nil, errDead
	case d.dirs[name]:
		return &file{disk: d, name: name}, nil
	case i == nil:
		return nil, notExist("open", name)
	default:
		return &file{disk: d, name: name, inode: i}, nil
	}
}

func (d *disk) Open(name string, _ ...vfs.OpenOption) (vfs.File, error) {
	if err := d.begin("read", name); err != nil {
		return nil, err
	}
	return d.open(name)
}

func (d *disk) OpenReadWrite(name string, c vfs.DiskWriteCategory, _ ...vfs.OpenOption) (vfs.File, error) {
	f, err := d.open(name)
	if errors.Is(err, os.ErrNotExist) {
		return d.Create(name, c)
	}
	return f, err
}

func (d *disk) OpenDir(name string) (vfs.File, error) { return d.open(name) }

func (d *disk) Link(oldname, newname string) error {
	oldname, newname = path.Clean(oldname), path.Clean(newname)
	if err := d.begin("create", newname); err != nil {
		return err
	}
	return d.change(func() error {
		i := d.names[oldname]
		if i == nil || d.names[newname] != nil {
			return &os.LinkError{Op: "link", Old: oldname, New: newname, Err: os.ErrInvalid}
		}
		d.rename(rename{to: newname, inode: i})
		return nil
	})
}

func (d *disk) Remove(name string) error {
	name = path.Clean(name)
	if err := d.begin("remove", name); err != nil {
		return err
	}
	return d.change(func() error {
		if d.names[name] == nil {
			return notExist("remove", name)
		}
		d.rename(rename{from: name})
		return nil
	})
}

func (d *disk) RemoveAll(name string) error {
	if err := d.Remove(name); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func (d *disk) Rename(oldname, newname string) error {
	oldname, newname = path.Clean(oldname), path.Clean(newname)
	if err := d.begin("rename", newname); err != nil {
		return err
	}
	return d.change(func() error {
		i := d.names[oldname]
		if i == nil {
			return notExist("rename", oldname)
		}
		d.rename(rename{from: oldname, to: newname, inode: i})
		return nil
	})
}

func (d *disk) ReuseForWrite(oldname, newname string, _ vfs.DiskWriteCategory) (vfs.File, error) {
	if err := d.Rename(oldname, newname); err != nil {
		return nil, err
	}
	return d.open(newname)
}

func (d *disk) MkdirAll(name string, _ os.FileMode) error {
	return d.change(func() error {
		for dir := path.Clean(name); !d.dirs[dir]; dir = path.Dir(dir) {
			d.dirs[dir] = true
		}
		return nil
	})
}

func (d *disk) Lock(name string) (io.Closer, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.locks[name] {
		return nil, syscall.EAGAIN
	}
	d.locks[name] = true
	return lock{d, name}, nil
}

type lock struct {
	disk *disk
	name string
}

func (l lock) Close() error {
	l.disk.mu.Lock()
	defer l.disk.mu.Unlock()
	delete(l.disk.locks, l.name)
	return nil
}

func (d *disk) List(name string) (names []string, err error) {
	name = path.Clean(name)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead {
		return nil, errDead
	}
	if !d.dirs[name] {
		return nil, notExist("list", name)
	}
	for n := range d.names {
		if path.Dir(n) == name {
			names = append(names, path.Base(n))
		}
	}
	slices.Sort(names)
	return names, nil
}

func (d *disk) Stat(name string) (vfs.FileInfo, error) {
	f, err := d.open(name)
	if err != nil {
		return nil, err
	}
	return f.Stat()
}

func (d *disk) PathBase(p string) string       { return path.Base(p) }
func (d *disk) PathJoin(elem ...string) string { return path.Join(elem...) }
func (d *disk) PathDir(p string) string        { return path.Dir(p) }
func (d *disk) Unwrap() vfs.FS                 { return nil }

// capacity of a disk that is not filled, far more than a test writes.
const capacity = 1 << 40

// GetDiskUsage implements vfs.FS.
func (d *disk) GetDiskUsage(string) (vfs.DiskUsage, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	free, size := d.roomLocked()
	if d.faults.full() {
		free = 0
	}
	return vfs.DiskUsage{AvailBytes: uint64(free), TotalBytes: uint64(size), UsedBytes: uint64(size - free)}, nil
}

// A file is an open file, or directory.
type file struct {
	disk  *disk
	name  string
	inode *inode // nil for a directory
	at    int64  // offset of Read and Write of this open file
}

func (f *file) Close() error { return nil }

func (f *file) Read(p []byte) (int, error) {
	n, err := f.ReadAt(p, f.at)
	if f.at += int64(n); n > 0 {
		err = nil
	}
	return n, err
}

func (f *file) ReadAt(p []byte, at int64) (int, error) {
	if err := f.disk.begin("read", f.name); err != nil {
		return 0, err
	}
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if at >= int64(len(f.inode.data)) {
		return 0, io.EOF
	}
	n := copy(p, f.inode.data[at:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *file) Write(p []byte) (int, error) {
	n, err := f.WriteAt(p, f.at)
	f.at += int64(n)
	return n, err
}

// WriteAt implements vfs.File. A failed write may have written a part.
func (f *file) WriteAt(p []byte, at int64) (n int, err error) {
	failed := f.disk.begin("write", f.name)
	if failed != nil {
		p = p[:f.disk.seed.of("partial", path.Base(f.name), at).int("bytes", len(p)+1)]
	}
	err = f.disk.change(func() error {
		i := f.inode
		if more := int(at) + len(p) - i.takes(); more > 0 {
			if free, _ := f.disk.roomLocked(); more > free {
				p, failed = p[:max(len(p)-more+free, 0)], errors.Join(failed, syscall.ENOSPC)
				f.disk.log.add("disk: write %s: no room", path.Base(f.name))
			}
		}
		if grow := int(at) + len(p) - len(i.data); grow > 0 {
			i.data = append(i.data, make([]byte, grow)...)
		}
		n = copy(i.data[at:], p)
		for s := int(at) / sector; s*sector < int(at)+len(p); s++ {
			i.dirty[s] = true
		}
		return nil
	})
	return n, errors.Join(failed, err)
}

func (f *file) Sync() error {
	failed := f.disk.begin("sync", f.name)
	if errors.Is(failed, errDead) {
		return failed
	}
	d := f.disk
	err := d.change(func() error {
		d.syncs++
		if d.odds > 0 && strings.HasSuffix(f.name, d.lies) && d.seed.of("lie", path.Base(f.name), d.syncs).chance(d.odds) {
			return nil
		}
		if f.inode == nil {
			if failed == nil {
				d.syncNames(f.name)
			}
			return nil
		}
		for _, s := range slices.Sorted(maps.Keys(f.inode.dirty)) {
			if failed == nil || d.seed.of("lost", path.Base(f.name), d.syncs).int(fmt.Sprint(s), 2) == 0 {
				f.inode.durable = f.inode.write(f.inode.durable, s)
			}
		}
		clear(f.inode.dirty)
		return nil
	})
	return errors.Join(failed, err)
}

// syncNames makes the names in a directory durable.
func (d *disk) syncNames(dir string) {
	d.changes = slices.DeleteFunc(d.changes, func(r rename) bool {
		in := path.Dir(r.from + r.to)
		if r.from != "" && r.to != "" {
			in = path.Dir(r.to)
		}
		if in == dir {
			r.apply(d.durable)
		}
		return in == dir
	})
}

func (f *file) SyncData() error             { return f.Sync() }
func (f *file) SyncTo(int64) (bool, error)  { return false, nil } // which promises nothing
func (f *file) Prefetch(int64, int64) error { return nil }
func (f *file) Fd() uintptr                 { return vfs.InvalidFd }

func (f *file) Preallocate(at, length int64) error {
	return f.disk.change(func() error {
		if free, _ := f.disk.roomLocked(); int(at+length)-f.inode.takes() > free {
			return syscall.ENOSPC
		}
		f.inode.allocated = max(f.inode.allocated, int(at+length))
		return nil
	})
}

func (f *file) Stat() (vfs.FileInfo, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	info := info{name: path.Base(f.name), dir: f.inode == nil}
	if f.inode != nil {
		info.size = int64(len(f.inode.data))
	}
	return info, nil
}

type info struct {
	name string
	size int64
	dir  bool
}

func (i info) Name() string           { return i.name }
func (i info) Size() int64            { return i.size }
func (i info) ModTime() time.Time     { return time.Time{} }
func (i info) IsDir() bool            { return i.dir }
func (i info) Sys() any               { return nil }
func (i info) DeviceID() vfs.DeviceID { return vfs.DeviceID{} }
func (i info) Mode() os.FileMode {
	if i.dir {
		return os.ModeDir | 0o700
	}
	return 0o600
}

// weather has the faults of a disk over time.
type weather struct {
	fast  bool                      // syncs take no time
	begin atomic.Pointer[time.Time] // nil before the beginning
	spell []spell
}

// A spell is a period in which operations fail, or are slow, with the probability odds.
type spell struct {
	from, to time.Duration
	what     string // slow, full, filled, or the operation that fails
	odds     float64
}

func (s spell) String() string {
	return fmt.Sprintf("%v to %v: %s %.0f%%", s.from, s.to, s.what, 100*s.odds)
}

// forecast chooses the faults for some time; before its beginning and after its end there are none.
func forecast(s seed, until time.Duration) *weather {
	w := &weather{}
	for n := range 1 + s.int("spells", 5) {
		s := s.of("spell", n)
		from := time.Duration(s.int("from", int(until)))
		lasts := time.Duration(math.Exp(s.float("lasts")*7)) * time.Millisecond // up to a second
		what := []string{"slow", "full", "filled", "write", "sync", "read", "create", "rename", "remove"}[s.int("what", 9)]
		odds := []float64{1, 0.3, 0.03}[s.int("odds", 3)]
		w.spell = append(w.spell, spell{from, min(from+lasts, until), what, odds})
	}
	return w
}

func (w *weather) String() string {
	var lines []string
	for _, s := range w.spell {
		lines = append(lines, s.String())
	}
	return strings.Join(lines, "; ")
}

// now calls see with the present spells.
func (w *weather) now(see func(spell)) {
	begin := w.begin.Load()
	if begin == nil {
		return
	}
	at := time.Since(*begin)
	for _, s := range w.spell {
		if s.from <= at && at < s.to {
			see(s)
		}
	}
}

// slow returns how long a sync takes.
func (w *weather) slow(s seed) (d time.Duration) {
	if w.fast {
		return 0
	}
	d = time.Duration(s.int("latency", int(2*time.Millisecond)))
	w.now(func(sp spell) {
		if sp.what == "slow" && s.chance(sp.odds) {
			d += time.Duration(s.int("slow", int(2*time.Second)))
		}
	})
	return d
}

// full reports whether there is no space.
func (w *weather) full() (full bool) {
	w.now(func(sp spell) { full = full || sp.what == "full" })
	return full
}

// filled reports whether other programs have filled the disk.
func (w *weather) filled() (filled bool) {
	w.now(func(sp spell) { filled = filled || sp.what == "filled" })
	return filled
}

func (w *weather) err(op string, s seed) (err error) {
	w.now(func(sp spell) {
		switch {
		case !s.chance(sp.odds):
		case sp.what == op:
			err = syscall.EIO
		case sp.what == "full" && (op == "write" || op == "create"):
			err = syscall.ENOSPC
		}
	})
	return err
}
