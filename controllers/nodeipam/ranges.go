package nodeipam

import (
	"encoding/binary"
	"math/bits"
	"net/netip"
	"slices"
	"sync"
)

// An allocator knows which node has which ranges.
type allocator struct {
	startMu sync.Mutex // held while the nodes are listed; before mu
	started bool       // under startMu

	mu      sync.Mutex
	sets    []*set // one for each range of the cluster
	nodes   map[string]*claim
	waiting []string // nodes for which there was no range, in their order
}

// A claim is the set of ranges that a node has, or is going to have.
type claim struct {
	ranges []string
	spans  []span // by set; those outside the sets are empty
}

func newAllocator(o Options) *allocator {
	a := &allocator{nodes: map[string]*claim{}}
	for _, p := range o.ClusterCIDRs {
		s := newSet(p, o.bits(p))
		for _, service := range o.ServiceCIDRs {
			s.add(s.span(service), 1)
		}
		a.sets = append(a.sets, s)
	}
	return a
}

// occupy notes the ranges that a node has, and returns nodes for which there is a range now.
func (a *allocator) occupy(node string, ranges []string) (wake []string) {
	if len(ranges) == 0 {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	was := a.nodes[node]
	if was != nil && slices.Equal(was.ranges, ranges) {
		return nil
	}
	c := &claim{ranges: slices.Clone(ranges), spans: make([]span, len(a.sets))}
	for i, s := range a.sets {
		if i < len(ranges) {
			if p, err := netip.ParsePrefix(ranges[i]); err == nil {
				c.spans[i] = s.span(p.Masked())
			}
		}
		s.add(c.spans[i], 1)
	}
	a.nodes[node] = c
	a.freeLocked(was)
	return a.wakeLocked()
}

// release forgets a node, and returns nodes for which there is a range now.
func (a *allocator) release(node string) (wake []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	was := a.nodes[node]
	delete(a.nodes, node)
	a.waiting = slices.DeleteFunc(a.waiting, func(w string) bool { return w == node })
	a.freeLocked(was)
	return a.wakeLocked()
}

func (a *allocator) freeLocked(c *claim) {
	if c == nil {
		return
	}
	for i, s := range a.sets {
		s.add(c.spans[i], -1)
	}
}

// wakeLocked returns as many of the nodes that wait as there are ranges, and they wait no more.
func (a *allocator) wakeLocked() (wake []string) {
	n := len(a.waiting)
	for _, s := range a.sets {
		n = min(n, s.free)
	}
	wake, a.waiting = slices.Clone(a.waiting[:n]), slices.Delete(a.waiting, 0, n)
	return wake
}

// allocate returns the ranges of a node, which has them until release or until occupy says that it
// has others. Without a range of each set, the node waits.
func (a *allocator) allocate(node string) (ranges []string, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c := a.nodes[node]; c != nil {
		return c.ranges, true
	}
	for _, s := range a.sets {
		if s.free == 0 {
			if !slices.Contains(a.waiting, node) {
				a.waiting = append(a.waiting, node)
			}
			return nil, false
		}
	}
	c := &claim{}
	for _, s := range a.sets {
		i := s.allocate()
		c.ranges = append(c.ranges, s.at(i).String())
		c.spans = append(c.spans, span{i, i + 1})
	}
	a.nodes[node] = c
	return c.ranges, true
}

// A set is a range of the cluster, divided into ranges of nodes, which are numbers from 0 to total.
// The next number is tried first, so that a range that has become free rests for a time.
type set struct {
	cluster netip.Prefix
	bits    int
	total   int
	next    int
	free    int
	used    map[int]int // how many have a range
}

// A span is some consecutive ranges: those from begin, without end.
type span struct{ begin, end int }

func newSet(p netip.Prefix, bits int) *set {
	total := 1 << (bits - p.Bits())
	return &set{cluster: p.Masked(), bits: bits, total: total, free: total, used: map[int]int{}}
}

// add adds by to the users of each range of a span.
func (s *set) add(of span, by int) {
	for i := of.begin; i < of.end; i++ {
		switch s.used[i] += by; s.used[i] {
		case 0:
			delete(s.used, i)
			s.free++
		case by:
			s.free--
		}
	}
}

// allocate takes a free range. There must be one.
func (s *set) allocate() int {
	i := s.next
	for s.used[i] > 0 {
		i = (i + 1) % s.total
	}
	s.next = (i + 1) % s.total
	s.add(span{i, i + 1}, 1)
	return i
}

// span returns the ranges of nodes with which a range overlaps.
func (s *set) span(p netip.Prefix) span {
	switch {
	case !p.Overlaps(s.cluster):
		return span{}
	case p.Bits() <= s.cluster.Bits():
		return span{0, s.total}
	}
	begin := s.index(p.Addr())
	return span{begin, begin + max(1, 1<<max(0, s.bits-p.Bits()))}
}

// A uint128 is an address as a number; one of IPv4 is in the upper half of hi.
type uint128 struct{ hi, lo uint64 }

func number(a netip.Addr) uint128 {
	if a.Is4() {
		b := a.As4()
		return uint128{hi: uint64(binary.BigEndian.Uint32(b[:])) << 32}
	}
	b := a.As16()
	return uint128{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])}
}

// index returns the number of the range in which an address of the cluster is.
func (s *set) index(a netip.Addr) int {
	n, base := number(a), number(s.cluster.Addr())
	lo, borrow := bits.Sub64(n.lo, base.lo, 0)
	hi, _ := bits.Sub64(n.hi, base.hi, borrow)
	if s.bits <= 64 {
		return int(hi >> (64 - s.bits))
	}
	return int(hi<<(s.bits-64) | lo>>(128-s.bits))
}

// at returns the range of a number.
func (s *set) at(i int) netip.Prefix {
	base, offset := number(s.cluster.Addr()), uint128{}
	if s.bits <= 64 {
		offset.hi = uint64(i) << (64 - s.bits)
	} else {
		offset.hi, offset.lo = uint64(i)>>(s.bits-64), uint64(i)<<(128-s.bits)
	}
	lo, carry := bits.Add64(base.lo, offset.lo, 0)
	hi, _ := bits.Add64(base.hi, offset.hi, carry)
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], hi)
	binary.BigEndian.PutUint64(b[8:], lo)
	if s.cluster.Addr().Is4() {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte(b[:4])), s.bits)
	}
	return netip.PrefixFrom(netip.AddrFrom16(b), s.bits)
}
