package powercut

import (
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
)

const (
	pageSize   = 4096
	sectorSize = 512 // the unit of atomic writes
)

// errNoPower is returned by all operations on a disk without power.
var errNoPower = errors.New("no power")

// A Disk keeps files in memory, and what would remain of them after a power cut. It is safe for
// concurrent use.
type Disk struct {
	mu     sync.Mutex
	random *rand.Rand
	nodes  map[uint64]*node
	last   uint64 // the last number of a node
	lies   bool   // syncs have no effect
	budget int    // number of changes until the power is cut; negative for never
	off    chan struct{}
	order  int // number of changes of directories
	synced int // number of syncs
}

// A node is a file or a directory. Nodes without a name are kept until the power is cut.
type node struct {
	id        uint64
	mode      uint32 // permissions
	directory bool

	// Of a directory: its names now and at its last sync, and the changes in between.
	names, durable map[string]*node
	changes        []change

	// Of a file: its content now and at its last sync, and the pages that differ.
	now, safe content
	dirty     map[int64]bool
}

// A change is a change of a name in a directory; a nil node removes it.
type change struct {
	order int
	name  string
	to    *node
}

// A content is that of a file. Absent pages are zeros; pages of a synced content are immutable.
type content struct {
	size  int64
	pages map[int64]*[pageSize]byte
}

const rootID = 1

// NewDisk returns an empty disk. With lies, its syncs have no effect.
func NewDisk(seed uint64, lies bool) *Disk {
	d := &Disk{random: rand.New(rand.NewPCG(seed, 0)), nodes: map[uint64]*node{}, lies: lies, budget: -1, off: make(chan struct{})}
	d.newLocked(true, 0o755)
	return d
}

func (d *Disk) newLocked(directory bool, mode uint32) *node {
	d.last++
	n := &node{id: d.last, mode: mode, directory: directory}
	if directory {
		n.names, n.durable = map[string]*node{}, map[string]*node{}
	} else {
		n.now, n.safe, n.dirty = newContent(), newContent(), map[int64]bool{}
	}
	d.nodes[n.id] = n
	return n
}

func newContent() content { return content{pages: map[int64]*[pageSize]byte{}} }

// CutAfter cuts the power at the nth change from now on.
func (d *Disk) CutAfter(changes int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.budget = changes
}

// Off returns a channel that is closed when the power is cut. It is another one after
// [Disk.Restart].
func (d *Disk) Off() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.off
}

// Cut cuts the power now, unless it is off.
func (d *Disk) Cut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cutLocked()
}

func (d *Disk) cutLocked() {
	if !d.deadLocked() {
		close(d.off)
	}
}

func (d *Disk) deadLocked() bool {
	select {
	case <-d.off:
		return true
	default:
		return false
	}
}

// changing counts a change. It returns false if the power is cut before it, and cuts the power
// after the last one.
func (d *Disk) changingLocked() bool {
	if d.deadLocked() {
		return false
	}
	if d.budget == 0 {
		if d.cutLocked(); d.random.IntN(2) == 0 {
			return false
		}
	}
	d.budget--
	return true
}

// write changes a file. A part of the last write before a power cut may be done.
func (d *Disk) write(n *node, data []byte, at int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.changingLocked() {
		return errNoPower
	}
	if d.deadLocked() {
		data = data[:d.random.IntN(len(data)+1)]
	}
	for len(data) > 0 {
		page := n.writableLocked(at / pageSize)
		done := copy(page[at%pageSize:], data)
		data, at = data[done:], at+int64(done)
	}
	n.now.size = max(n.now.size, at)
	return d.errLocked()
}

func (d *Disk) errLocked() error {
	if d.deadLocked() {
		return errNoPower
	}
	return nil
}

// writableLocked returns a page that is not part of the synced content.
func (n *node) writableLocked(i int64) *[pageSize]byte {
	if !n.dirty[i] {
		page := [pageSize]byte{}
		if old := n.now.pages[i]; old != nil {
			page = *old
		}
		n.now.pages[i], n.dirty[i] = &page, true
	}
	return n.now.pages[i]
}

func (d *Disk) read(n *node, buf []byte, at int64) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.deadLocked() {
		return 0, errNoPower
	}
	size := max(0, min(int64(len(buf)), n.now.size-at))
	for done := int64(0); done < size; {
		i, from := (at+done)/pageSize, (at+done)%pageSize
		part := buf[done:min(size, done+pageSize-from)]
		if page := n.now.pages[i]; page != nil {
			copy(part, page[from:])
		} else {
			clear(part)
		}
		done += int64(len(part))
	}
	return int(size), nil
}

// truncate sets the length of a file. A part that was cut off is zeros if the file grows again.
func (d *Disk) truncate(n *node, size int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.changingLocked() {
		return errNoPower
	}
	for i := range n.now.pages {
		switch from := size - i*pageSize; {
		case from <= 0:
			delete(n.now.pages, i)
			delete(n.dirty, i)
		case from < pageSize:
			clear(n.writableLocked(i)[from:])
		}
	}
	n.now.size = size
	return d.errLocked()
}

// sync makes a file or a directory durable. A sync during which the power is cut may or may not be
// done, and is not acknowledged.
func (d *Disk) sync(n *node) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.changingLocked() {
		return errNoPower
	}
	d.synced++
	if !d.lies {
		n.settle()
	}
	return d.errLocked()
}

// settle makes the present state durable.
func (n *node) settle() {
	if n.directory {
		n.durable, n.changes = maps.Clone(n.names), nil
		return
	}
	n.safe, n.dirty = content{n.now.size, maps.Clone(n.now.pages)}, map[int64]bool{}
}

// edit changes names in directories, all of them or none.
func (d *Disk) edit(edits map[*node]map[string]*node) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.changingLocked() {
		return errNoPower
	}
	d.order++
	for dir, names := range edits {
		for name, to := range names {
			if dir.changes = append(dir.changes, change{d.order, name, to}); to == nil {
				delete(dir.names, name)
			} else {
				dir.names[name] = to
			}
		}
	}
	return d.errLocked()
}

// Remains selects what is left of unsynced data after a power cut.
type Remains int

const (
	ByChance Remains = iota
	Nothing
)

// Restart replaces the content of a disk without power by what is left, and turns the power on.
func (d *Disk) Restart(remains Remains) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.deadLocked() {
		return
	}
	moment := d.random.IntN(d.order + 2) // the state of directories, unless another one is chosen
	mode := d.random.IntN(4)
	if remains == Nothing {
		mode = 0
	}
	for _, id := range slices.Sorted(maps.Keys(d.nodes)) {
		n, chance := d.nodes[id], mode
		if mode == 3 {
			chance = d.random.IntN(3)
		}
		if n.directory {
			n.leaveNames(chance, moment)
		} else {
			n.leaveContent(d.random, chance)
		}
		n.settle()
	}
	reachable := map[uint64]*node{}
	var reach func(n *node)
	reach = func(n *node) {
		if reachable[n.id] == nil {
			reachable[n.id] = n
			for _, child := range n.names {
				reach(child)
			}
		}
	}
	reach(d.nodes[rootID])
	d.nodes, d.order, d.budget, d.off = reachable, 0, -1, make(chan struct{})
}

// leaveNames leaves the names of the last sync, those at the end, or those at a time in between.
func (n *node) leaveNames(chance, moment int) {
	switch chance {
	case 0:
		n.names = n.durable
	case 1:
		n.names = maps.Clone(n.durable)
		for _, c := range n.changes {
			if c.order >= moment {
				break
			}
			if c.to == nil {
				delete(n.names, c.name)
			} else {
				n.names[c.name] = c.to
			}
		}
	}
}

// leaveContent leaves the synced content, with some, all or none of the later writes.
func (n *node) leaveContent(r *rand.Rand, chance int) {
	switch chance {
	case 0:
		n.now = n.safe
	case 1:
		if less := min(n.now.size, n.safe.size); n.now.size != n.safe.size {
			n.now.size = less + r.Int64N(max(n.now.size, n.safe.size)-less+1)
		}
		for _, i := range slices.Sorted(maps.Keys(n.dirty)) {
			mixed := [pageSize]byte{}
			for at := 0; at < pageSize; at += sectorSize {
				from := n.now.pages[i]
				if r.IntN(2) == 0 {
					from = n.safe.pages[i]
				}
				if from != nil {
					copy(mixed[at:at+sectorSize], from[at:])
				}
			}
			n.now.pages[i] = &mixed
		}
	}
}

// ReadFile returns the content of a file on the disk, by its path from the root.
func (d *Disk) ReadFile(path string) ([]byte, bool) {
	d.mu.Lock()
	n := d.nodes[rootID]
	for name := range strings.SplitSeq(path, "/") {
		if n == nil || !n.directory {
			break
		}
		n = n.names[name]
	}
	d.mu.Unlock()
	if n == nil || n.directory {
		return nil, false
	}
	buf := make([]byte, n.now.size)
	_, err := d.read(n, buf, 0)
	return buf, err == nil
}
