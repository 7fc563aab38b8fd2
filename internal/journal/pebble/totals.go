package pebble

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/kapok-dev/kapok/internal/object"
)

// totals are the expected contents of a store. Every group writes them in one batch with its
// records: whatever is missing when the store is read back (a log, a table, a part of a list of
// tables), the remaining totals reveal it.
type totals struct {
	head object.Revision // of the newest record
	live int64           // objects that have not been replaced or deleted
	sum  uint64          // of their revisions, each mixed
}

func (t *totals) add(rev object.Revision)    { t.live, t.sum = t.live+1, t.sum+mix(rev) }
func (t *totals) remove(rev object.Revision) { t.live, t.sum = t.live-1, t.sum-mix(rev) }

// mix spreads a revision over all bits, so that sums of different sets differ. It
// is the finalizer of splitmix64.
func mix(rev object.Revision) uint64 {
	x := uint64(rev) + 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func (t totals) encode() []byte {
	b := encodeMark(t.head)
	b = binary.BigEndian.AppendUint64(b, uint64(t.live))
	return binary.BigEndian.AppendUint64(b, t.sum)
}

func decodeTotals(b []byte) (t totals, ok bool) {
	if len(b) != 24 {
		return t, false
	}
	t.head = object.Revision(binary.BigEndian.Uint64(b))
	t.live = int64(binary.BigEndian.Uint64(b[8:]))
	t.sum = binary.BigEndian.Uint64(b[16:])
	return t, t.head >= 0 && t.live >= 0
}

// lost are the revisions of failed writes, in order: ranges that were assigned and never committed.
// Apart from these, history has no gaps.
type lost []span

// span is a range of revisions, both ends included.
type span struct{ from, to object.Revision }

// within returns how many of the lost revisions are in (after, upTo].
func (l lost) within(after, upTo object.Revision) int64 {
	var n object.Revision
	for _, s := range l {
		n += max(0, min(s.to, upTo)-max(s.from, after+1)+1)
	}
	return int64(n)
}

// add returns the list with another span, and without the spans that are compacted.
func (l lost) add(s span, compacted object.Revision) lost {
	l = slices.DeleteFunc(slices.Clone(l), func(s span) bool { return s.to <= compacted })
	return append(l, s)
}

func (l lost) encode() []byte {
	var b []byte
	for _, s := range l {
		b = append(append(b, encodeMark(s.from)...), encodeMark(s.to)...)
	}
	return b
}

func decodeLost(b []byte) (l lost, ok bool) {
	if len(b)%16 != 0 {
		return nil, false
	}
	for ; len(b) > 0; b = b[16:] {
		s := span{object.Revision(binary.BigEndian.Uint64(b)), object.Revision(binary.BigEndian.Uint64(b[8:]))}
		if s.from <= 0 || s.to < s.from || len(l) > 0 && s.from <= l[len(l)-1].to {
			return nil, false
		}
		l = append(l, s)
	}
	return l, true
}

// tally sums up the records of a store as they are read, in key order, and compares them with the
// totals at the end.
type tally struct {
	compacted object.Revision
	found     totals
	history   int64 // records behind compacted

	objects []object.Revision // of the resource that is being read: those not deletions
}

// resource begins another resource.
func (t *tally) resource() { t.objects = t.objects[:0] }

// add adds the next record of a resource, and returns an error if it is inconsistent.
func (t *tally) add(r *record) error {
	if r.previous >= r.revision {
		return fmt.Errorf("replaces revision %d, which is not older", r.previous)
	}
	var there bool
	if r.previous > 0 {
		if _, there = slices.BinarySearch(t.objects, r.previous); there {
			t.found.remove(r.previous)
		}
	}
	if !r.deleted {
		t.objects = append(t.objects, r.revision)
		t.found.add(r.revision)
	}
	t.found.head = max(t.found.head, r.revision)
	if r.revision > t.compacted {
		t.history++
		if r.previous > 0 && !there {
			return fmt.Errorf("replaces revision %d, which is missing", r.previous)
		}
	}
	return nil
}

// compare returns an error if records are missing, once all have been added.
func (t *tally) compare(m *marks) error {
	want := m.totals
	if t.found.head > want.head {
		return fmt.Errorf("found revision %d, but the newest recorded write is %d", t.found.head, want.head)
	}
	if n := int64(want.head-m.compacted) - m.lost.within(m.compacted, want.head); t.history != n {
		return fmt.Errorf("found %d writes since revision %d, but the store recorded %d", t.history, m.compacted, n)
	}
	if t.found.live != want.live || t.found.sum != want.sum {
		return fmt.Errorf("found %d objects, but the store recorded %d, and they differ", t.found.live, want.live)
	}
	return nil
}
