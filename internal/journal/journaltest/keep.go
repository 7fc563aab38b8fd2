package journaltest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/test/seeds"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

func testRecovery(t *testing.T, b *bench) {
	b.restart(t) // empty
	p, d, s, n := key(pods, "a"), key(deploys, "a"), key(scales, "a"), key(nodes, "a")
	first := b.append(t, put(p, 0, "1"), put(d, 0, "1"), put(s, 0, "1"))
	b.append(t, put(n, 0, ""))
	b.append(t, put(key(pods, "b"), 0, "binary \x00 and \u00fc"))
	b.restart(t)
	// Writers continue at their revisions, and preconditions hold across restarts.
	b.conflicts(t, batch(put(d, 0, "2")), journal.ConflictError{Key: d, Current: b.twin.Revision(d)})
	second := b.append(t, put(p, b.twin.Revision(p), "2"))
	if second <= first {
		t.Errorf("revision %d after %d", second, first)
	}
	b.append(t, remove(n, b.twin.Revision(n)))
	b.restart(t)
	b.restart(t)
	if b.twin.Revision(n) != 0 {
		t.Error("a deleted object came back")
	}
	// The history from before the restarts is available.
	for _, resource := range []schema.GroupResource{pods, deploys, scales, nodes} {
		if err := b.history(t.Context(), resource, b.Compacted(), b.twin.Head(), 0); err != nil {
			t.Error(err)
		}
	}
}

// testRevisionsAreUsedOnce: revisions are not reused, even if no stored record mentions them any
// more.
func testRevisionsAreUsedOnce(t *testing.T, b *bench) {
	a := key(pods, "a")
	rev := b.append(t, put(a, 0, ""))
	rev = b.append(t, remove(a, rev))
	if err := b.Compact(t.Context(), rev); err != nil {
		t.Fatal(err)
	}
	b.restart(t)
	b.restart(t)
	if head, _ := b.Head(); head < rev {
		t.Errorf("head %d after a restart, was %d", head, rev)
	}
	if again := b.append(t, put(a, 0, "")); again <= rev {
		t.Errorf("revision %d after %d", again, rev)
	}
}

func testHistory(t *testing.T, b *bench) {
	a, c, other := key(pods, "a"), key(pods, "c"), key(scales, "a")
	start := b.Compacted()
	var revs []object.Revision
	add := func(e journal.Entry) object.Revision {
		rev := b.append(t, e)
		revs = append(revs, rev)
		return rev
	}
	a1 := add(put(a, 0, "1"))
	add(put(other, 0, "1"))
	a2 := add(put(a, a1, "2"))
	c1 := add(put(c, 0, "1"))
	a3 := add(remove(a, a2))
	add(put(a, 0, "4")) // a new object under the name
	add(remove(c, c1))

	head := b.twin.Head()
	bounds, limits := append(revs, start, head+10), []int{0, 1, 2, 100}
	if b.engine.Sparse {
		bounds, limits = []object.Revision{start, a2, c1, head + 10}, []int{0, 2}
	}
	for _, resource := range []schema.GroupResource{pods, scales, deploys} {
		for _, after := range bounds {
			for _, upTo := range bounds {
				for _, limit := range limits {
					if err := b.history(t.Context(), resource, after, upTo, limit); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	}
	records, err := b.History(t.Context(), pods, a2, a3, 0)
	if err != nil || len(records) != 2 {
		t.Fatalf("%d records, error %v", len(records), err)
	}
	if r := records[1]; r.Key != a || r.Object != nil || r.Prev != a2 || r.Replaced == nil || r.Replaced.Revision != a2 {
		t.Errorf("a deletion reads %+v", r)
	}
	if _, err := b.History(t.Context(), pods, start-1, head, 0); start > 0 && !errors.Is(err, journal.ErrCompacted) {
		t.Errorf("history after %d: %v", start-1, err)
	}
}

func testCompact(t *testing.T, b *bench) {
	a, c := key(pods, "a"), key(pods, "c")
	quiet := key(nodes, "quiet") // written once, long ago
	b.append(t, put(quiet, 0, "still here"))
	a1 := b.append(t, put(a, 0, "1"))
	a2 := b.append(t, put(a, a1, "2"))
	c1 := b.append(t, put(c, 0, "1"))
	a3 := b.append(t, put(a, a2, "3"))
	c2 := b.append(t, remove(c, c1))
	a4 := b.append(t, remove(a, a3))

	check := func(want object.Revision) {
		t.Helper()
		if got := b.Compacted(); got != want {
			t.Fatalf("compacted up to %d, want %d", got, want)
		}
		if _, err := b.History(t.Context(), pods, want-1, a4, 0); !errors.Is(err, journal.ErrCompacted) {
			t.Errorf("history after %d: %v", want-1, err)
		}
		for _, resource := range []schema.GroupResource{pods, nodes} {
			if err := b.history(t.Context(), resource, want, a4, 0); err != nil {
				t.Error(err)
			}
		}
	}
	compact := func(upTo object.Revision) {
		t.Helper()
		if err := b.Compact(t.Context(), upTo); err != nil {
			t.Fatal(err)
		}
	}
	for _, upTo := range []object.Revision{a1, a2, c1, a3, c2, a4} {
		compact(upTo)
		check(upTo)
		compact(upTo - 1) // does not move back
		check(upTo)
		b.restart(t)
		check(upTo)
	}
	if live := b.twin.Live(); len(live) != 1 || live[quiet] == nil {
		t.Errorf("live: %v", live)
	}
	compact(a4 + 1000) // as far as there is anything
	if got := b.Compacted(); got < a4 || got > b.twin.Head() {
		t.Errorf("compacted up to %d, head is %d", got, b.twin.Head())
	}
	b.append(t, put(a, 0, "5"))
	b.restart(t)
}

// testCompactUnderWrites: a history that is compacted while it is read is complete, or the read
// returns an error.
func testCompactUnderWrites(t *testing.T, b *bench) {
	// Compactions and reads follow the writes: a loop that does not wait would take thousands of
	// snapshots while the disk syncs, and a journal may refuse these.
	wrote := [2]chan struct{}{make(chan struct{}, 1), make(chan struct{}, 1)}
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			for i := range 100 {
				k := key(pods, fmt.Sprint(w, i%3))
				e := put(k, b.twin.Revision(k), fmt.Sprint(i))
				if i%5 == 4 {
					e.Object = nil
					if e.Prev == 0 {
						continue
					}
				}
				if _, err := b.Append(t.Context(), batch(e)); err != nil {
					t.Errorf("append: %v", err)
				}
				for _, c := range wrote {
					select {
					case c <- struct{}{}:
					default: // one is waiting already
					}
				}
			}
		})
	}
	var followers sync.WaitGroup
	followers.Go(func() {
		for range wrote[0] {
			head, _ := b.Head()
			if err := b.Compact(t.Context(), head-20); err != nil {
				t.Errorf("compact: %v", err)
			}
		}
	})
	followers.Go(func() {
		for range wrote[1] {
			head, _ := b.Head()
			after := b.Compacted()
			err := b.history(t.Context(), pods, after, head, 20)
			if err != nil && !errors.Is(err, journal.ErrCompacted) {
				t.Errorf("history: %v", err)
			}
			if errors.Is(err, journal.ErrCompacted) && b.Compacted() == after {
				t.Errorf("history after %d is gone, compacted up to %d", after, b.Compacted())
			}
		}
	})
	writers.Wait()
	for _, c := range wrote {
		close(c)
	}
	followers.Wait()
	b.restart(t)
}

// testRandom: random writes, compactions and restarts, and the twin.
func testRandom(t *testing.T, b *bench) {
	seed := seeds.Of(t)
	r := rand.New(rand.NewPCG(seed, 0))
	resources := []schema.GroupResource{pods, deploys, scales, nodes}
	for range 400 {
		switch dice := r.IntN(100); {
		case dice < 3:
			b.restart(t)
		case dice < 8:
			head := b.twin.Head()
			if err := b.Compact(t.Context(), head-object.Revision(r.IntN(30))); err != nil {
				t.Fatal(err)
			}
		case dice < 20:
			compacted, head := b.Compacted(), b.twin.Head()
			after := compacted + object.Revision(r.Int64N(int64(head-compacted)+1))
			upTo := after + object.Revision(r.Int64N(int64(head-after)+1))
			limit := r.IntN(5)
			if b.engine.Sparse {
				limit *= 50
			}
			if err := b.history(t.Context(), resources[r.IntN(len(resources))], after, upTo, limit); err != nil {
				t.Fatal(err)
			}
		default:
			b.commit(t, b.randomBatch(r, resources))
		}
	}
	b.restart(t)
}

func (b *bench) randomBatch(r *rand.Rand, resources []schema.GroupResource) journal.Batch {
	var batch journal.Batch
	for _, i := range r.Perm(len(resources))[:1+r.IntN(len(resources))] {
		for _, j := range r.Perm(4)[:1+r.IntN(3)] {
			k := key(resources[i], fmt.Sprint(j))
			e := put(k, b.twin.Revision(k), fmt.Sprint(r.IntN(1000)))
			if e.Prev > 0 && r.IntN(3) == 0 {
				e.Object = nil
			}
			batch.Entries = append(batch.Entries, e)
			if b.engine.OnePerResource {
				break
			}
		}
	}
	return batch
}

// testForgotten: a journal without history reports that.
func testForgotten(t *testing.T, b *bench) {
	a := key(pods, "a")
	rev := b.append(t, put(a, 0, ""))
	if b.Compacted() != rev {
		t.Errorf("compacted up to %d, want %d", b.Compacted(), rev)
	}
	if _, err := b.History(t.Context(), pods, rev-1, rev, 0); !errors.Is(err, journal.ErrCompacted) {
		t.Errorf("history: %v", err)
	}
	if records, err := b.History(t.Context(), pods, rev, rev, 0); err != nil || len(records) != 0 {
		t.Errorf("history of nothing: %v, error %v", records, err)
	}
	if err := b.Compact(t.Context(), rev); err != nil {
		t.Errorf("compact: %v", err)
	}
}
