package pebble

import (
	"math/rand/v2"
	"testing"

	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/test/seeds"

	"github.com/cockroachdb/pebble/v2/vfs"
)

func TestLost(t *testing.T) {
	var l lost
	l = l.add(span{3, 5}, 0)
	l = l.add(span{9, 9}, 0)
	for _, test := range []struct {
		after, upTo object.Revision
		want        int64
	}{{0, 100, 4}, {0, 3, 1}, {3, 100, 3}, {5, 8, 0}, {4, 9, 2}, {9, 100, 0}, {100, 3, 0}} {
		if got := l.within(test.after, test.upTo); got != test.want {
			t.Errorf("lost in (%d, %d]: %d, want %d", test.after, test.upTo, got, test.want)
		}
	}
	again, ok := decodeLost(l.encode())
	if !ok || len(again) != 2 || again[0] != l[0] || again[1] != l[1] {
		t.Errorf("read back %v", again)
	}
	if l = l.add(span{20, 30}, 5); len(l) != 2 || l[0] != (span{9, 9}) {
		t.Errorf("compacted: %v", l)
	}
	for _, bad := range []lost{{{5, 4}}, {{0, 4}}, {{3, 7}, {7, 9}}} {
		if _, ok := decodeLost(bad.encode()); ok {
			t.Errorf("%v was accepted", bad)
		}
	}
	if _, ok := decodeLost([]byte("short")); ok {
		t.Error("half a span was accepted")
	}
}

// TestSums: sums of different revisions differ, however they are added up.
func TestSums(t *testing.T) {
	seed := seeds.Of(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 1000 {
		var a, b totals
		revs := make([]object.Revision, 1+rng.IntN(20))
		for i := range revs {
			revs[i] = object.Revision(1 + rng.IntN(1000))
			a.add(revs[i])
		}
		rng.Shuffle(len(revs), func(i, j int) { revs[i], revs[j] = revs[j], revs[i] })
		for _, rev := range revs {
			b.add(rev)
		}
		if a != b {
			t.Fatalf("%+v in another order: %+v", a, b)
		}
		b.remove(revs[0])
		b.add(revs[0] + 1)
		if a.sum == b.sum {
			t.Fatalf("other revisions than %v have the same sum", revs)
		}
	}
}

func TestHead(t *testing.T) {
	fs := vfs.NewMem()
	if _, err := readHead(fs, ""); !noHead(err) {
		t.Errorf("no file: %v", err)
	}
	if err := createHead(fs, "", head{state: stateReady}); err != nil {
		t.Fatal(err)
	}
	f, err := openHead(fs, "")
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	for rev := object.Revision(1); rev < 10; rev++ {
		want := head{stateReady, rev}
		if err := f.write(want); err != nil {
			t.Fatal(err)
		}
		if got, err := readHead(fs, ""); err != nil || got != want {
			t.Errorf("read %+v, error %v, want %+v", got, err, want)
		}
		// Where the newer slot is torn, the older one counts.
		torn := (1 - f.next) * headPage
		if _, err := f.file.WriteAt([]byte("torn"), torn); err != nil {
			t.Fatal(err)
		}
		if got, err := readHead(fs, ""); err != nil || got.revision != rev-1 {
			t.Errorf("read %+v, error %v, want revision %d", got, err, rev-1)
		}
		if _, err := f.file.WriteAt(encodeHead(want), torn); err != nil {
			t.Fatal(err)
		}
	}
	for slot := range int64(2) {
		if _, err := f.file.WriteAt([]byte("torn"), slot*headPage); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := readHead(fs, ""); err != errHead {
		t.Errorf("torn: %v", err)
	}
}

func FuzzMarks(f *testing.F) {
	f.Add(totals{1, 2, 3}.encode())
	f.Add(lost{{1, 2}, {4, 4}}.encode())
	f.Add(encodeHead(head{stateReady, 7}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if v, ok := decodeTotals(b); ok && string(v.encode()) != string(b) {
			t.Errorf("%+v of %x", v, b)
		}
		if v, ok := decodeLost(b); ok && string(v.encode()) != string(b) {
			t.Errorf("%+v of %x", v, b)
		}
		if v, ok := decodeHead(b); ok && string(encodeHead(v)) != string(b[:headSlot]) {
			t.Errorf("%+v of %x", v, b)
		}
	})
}
