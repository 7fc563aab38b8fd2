package powercut

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// Mount mounts the disk on an empty directory until unmount is called. A disk can be mounted once
// at a time. The kernel's cache is not used, so that the disk has everything that was written.
func (d *Disk) Mount(dir string) (unmount func() error, err error) {
	raw := &mounted{RawFileSystem: fuse.NewDefaultRawFileSystem(), disk: d, listings: map[uint64][]fuse.DirEntry{}}
	server, err := fuse.NewServer(raw, dir, &fuse.MountOptions{
		DirectMountStrict: true, FsName: "powercut", Name: "powercut", DisableXAttrs: true, DisableReadDirPlus: true, MaxBackground: 64,
	})
	if err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		server.Serve()
	}()
	if err := server.WaitMount(); err != nil {
		return nil, err
	}
	return func() error {
		if err := server.Unmount(); err != nil {
			return err
		}
		select {
		case <-ended:
		case <-time.After(10 * time.Second): // a mount namespace that another program has made has the disk, too
		}
		return nil
	}, nil
}

// mounted translates between the kernel and a disk.
type mounted struct {
	fuse.RawFileSystem
	disk *Disk

	mu       sync.Mutex
	listings map[uint64][]fuse.DirEntry // of open directories
	opened   uint64
}

func statusOf(err error) fuse.Status {
	var number syscall.Errno
	switch {
	case err == nil:
		return fuse.OK
	case errors.As(err, &number):
		return fuse.Status(number)
	}
	return fuse.EIO
}

func (m *mounted) String() string { return "powercut" }

// node returns a node by its number.
func (m *mounted) node(id uint64) *node {
	m.disk.mu.Lock()
	defer m.disk.mu.Unlock()
	return m.disk.nodes[id]
}

func (m *mounted) find(dir uint64, name string) (parent, n *node) {
	m.disk.mu.Lock()
	defer m.disk.mu.Unlock()
	parent = m.disk.nodes[dir]
	if parent != nil {
		n = parent.names[name]
	}
	return parent, n
}

func (m *mounted) fill(n *node, a *fuse.Attr) {
	m.disk.mu.Lock()
	defer m.disk.mu.Unlock()
	*a = fuse.Attr{Ino: n.id, Mode: n.mode | fuse.S_IFREG, Nlink: 1, Blksize: pageSize}
	if n.directory {
		a.Mode = n.mode | fuse.S_IFDIR
	} else {
		a.Size, a.Blocks = uint64(n.now.size), uint64(n.now.size+511)/512
	}
}

func (m *mounted) entry(n *node, out *fuse.EntryOut) fuse.Status {
	out.NodeId, out.Generation = n.id, 1
	m.fill(n, &out.Attr)
	return fuse.OK
}

func (m *mounted) Lookup(_ <-chan struct{}, h *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	_, n := m.find(h.NodeId, name)
	if n == nil {
		return fuse.ENOENT
	}
	return m.entry(n, out)
}

func (m *mounted) GetAttr(_ <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	n := m.node(in.NodeId)
	if n == nil {
		return fuse.ENOENT
	}
	m.fill(n, &out.Attr)
	return fuse.OK
}

func (m *mounted) SetAttr(_ <-chan struct{}, in *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
	n := m.node(in.NodeId)
	if n == nil {
		return fuse.ENOENT
	}
	if size, ok := in.GetSize(); ok {
		if err := m.disk.truncate(n, int64(size)); err != nil {
			return statusOf(err)
		}
	}
	if mode, ok := in.GetMode(); ok {
		m.disk.mu.Lock()
		n.mode = mode & 0o7777
		m.disk.mu.Unlock()
	}
	m.fill(n, &out.Attr)
	return fuse.OK
}

// make creates a file or a directory.
func (m *mounted) make(dir uint64, name string, directory bool, mode uint32) (*node, error) {
	parent, n := m.find(dir, name)
	switch {
	case parent == nil:
		return nil, syscall.ENOENT
	case n != nil:
		return nil, syscall.EEXIST
	}
	m.disk.mu.Lock()
	n = m.disk.newLocked(directory, mode&0o7777)
	m.disk.mu.Unlock()
	return n, m.disk.edit(map[*node]map[string]*node{parent: {name: n}})
}

func (m *mounted) Mkdir(_ <-chan struct{}, in *fuse.MkdirIn, name string, out *fuse.EntryOut) fuse.Status {
	n, err := m.make(in.NodeId, name, true, in.Mode)
	if err != nil {
		return statusOf(err)
	}
	return m.entry(n, out)
}

func (m *mounted) Create(_ <-chan struct{}, in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	n, err := m.make(in.NodeId, name, false, in.Mode)
	if err != nil {
		return statusOf(err)
	}
	out.OpenFlags = fuse.FOPEN_DIRECT_IO
	return m.entry(n, &out.EntryOut)
}

func (m *mounted) Link(_ <-chan struct{}, in *fuse.LinkIn, name string, out *fuse.EntryOut) fuse.Status {
	n := m.node(in.Oldnodeid)
	parent, other := m.find(in.NodeId, name)
	switch {
	case n == nil || parent == nil:
		return fuse.ENOENT
	case other != nil:
		return fuse.Status(syscall.EEXIST)
	}
	if err := m.disk.edit(map[*node]map[string]*node{parent: {name: n}}); err != nil {
		return statusOf(err)
	}
	return m.entry(n, out)
}

func (m *mounted) remove(dir uint64, name string) fuse.Status {
	parent, n := m.find(dir, name)
	if n == nil {
		return fuse.ENOENT
	}
	if n.directory && len(n.names) > 0 {
		return fuse.Status(syscall.ENOTEMPTY)
	}
	return statusOf(m.disk.edit(map[*node]map[string]*node{parent: {name: nil}}))
}

func (m *mounted) Unlink(_ <-chan struct{}, h *fuse.InHeader, name string) fuse.Status {
	return m.remove(h.NodeId, name)
}

func (m *mounted) Rmdir(_ <-chan struct{}, h *fuse.InHeader, name string) fuse.Status {
	return m.remove(h.NodeId, name)
}

func (m *mounted) Rename(_ <-chan struct{}, in *fuse.RenameIn, from, to string) fuse.Status {
	parent, n := m.find(in.NodeId, from)
	target, old := m.find(in.Newdir, to)
	switch {
	case n == nil || target == nil:
		return fuse.ENOENT
	case in.Flags&^1 != 0: // all but RENAME_NOREPLACE
		return fuse.EINVAL
	case in.Flags != 0 && old != nil:
		return fuse.Status(syscall.EEXIST)
	case old != nil && old.directory && len(old.names) > 0:
		return fuse.Status(syscall.ENOTEMPTY)
	case parent == target:
		return statusOf(m.disk.edit(map[*node]map[string]*node{parent: {from: nil, to: n}}))
	}
	return statusOf(m.disk.edit(map[*node]map[string]*node{parent: {from: nil}, target: {to: n}}))
}

func (m *mounted) Access(_ <-chan struct{}, in *fuse.AccessIn) fuse.Status { return fuse.OK }

func (m *mounted) Open(_ <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	n := m.node(in.NodeId)
	if n == nil {
		return fuse.ENOENT
	}
	if in.Flags&syscall.O_TRUNC != 0 {
		if err := m.disk.truncate(n, 0); err != nil {
			return statusOf(err)
		}
	}
	out.OpenFlags = fuse.FOPEN_DIRECT_IO
	return fuse.OK
}

func (m *mounted) Read(_ <-chan struct{}, in *fuse.ReadIn, buf []byte) (fuse.ReadResult, fuse.Status) {
	size, err := m.disk.read(m.node(in.NodeId), buf, int64(in.Offset))
	return fuse.ReadResultData(buf[:size]), statusOf(err)
}

func (m *mounted) Write(_ <-chan struct{}, in *fuse.WriteIn, data []byte) (uint32, fuse.Status) {
	if err := m.disk.write(m.node(in.NodeId), data, int64(in.Offset)); err != nil {
		return 0, statusOf(err)
	}
	return uint32(len(data)), fuse.OK
}

// Fallocate makes no promise that a disk in memory would not keep; of its modes, only growing has
// an effect.
func (m *mounted) Fallocate(_ <-chan struct{}, in *fuse.FallocateIn) fuse.Status {
	const keepSize = 1
	n := m.node(in.NodeId)
	m.disk.mu.Lock()
	grows := n.now.size < int64(in.Offset+in.Length)
	m.disk.mu.Unlock()
	switch {
	case in.Mode&^keepSize != 0:
		return fuse.Status(syscall.EOPNOTSUPP)
	case in.Mode == 0 && grows:
		return statusOf(m.disk.truncate(n, int64(in.Offset+in.Length)))
	}
	return fuse.OK
}

func (m *mounted) Flush(<-chan struct{}, *fuse.FlushIn) fuse.Status { return fuse.OK }

func (m *mounted) Fsync(_ <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	return statusOf(m.disk.sync(m.node(in.NodeId)))
}

func (m *mounted) FsyncDir(_ <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	return statusOf(m.disk.sync(m.node(in.NodeId)))
}

func (m *mounted) OpenDir(_ <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	n := m.node(in.NodeId)
	if n == nil || !n.directory {
		return fuse.ENOENT
	}
	m.disk.mu.Lock()
	var all []fuse.DirEntry
	for i, name := range slices.Sorted(maps.Keys(n.names)) {
		e := fuse.DirEntry{Name: name, Ino: n.names[name].id, Mode: fuse.S_IFREG, Off: uint64(i + 1)}
		if n.names[name].directory {
			e.Mode = fuse.S_IFDIR
		}
		all = append(all, e)
	}
	m.disk.mu.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.opened++
	m.listings[m.opened], out.Fh = all, m.opened
	return fuse.OK
}

func (m *mounted) ReadDir(_ <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	m.mu.Lock()
	all := m.listings[in.Fh]
	m.mu.Unlock()
	for i := in.Offset; i < uint64(len(all)) && out.AddDirEntry(all[i]); i++ {
	}
	return fuse.OK
}

func (m *mounted) ReleaseDir(in *fuse.ReleaseIn) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.listings, in.Fh)
}

func (m *mounted) Release(<-chan struct{}, *fuse.ReleaseIn) {}

func (m *mounted) StatFs(_ <-chan struct{}, _ *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	*out = fuse.StatfsOut{Blocks: 1 << 20, Bfree: 1 << 19, Bavail: 1 << 19, Bsize: pageSize, Frsize: pageSize, NameLen: 255}
	return fuse.OK
}
