package journaltest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/object"
)

func testPreconditions(t *testing.T, b *bench) {
	a := key(pods, "a")
	b.conflicts(t, batch(put(a, 7, "x")), journal.ConflictError{Key: a, Want: 7})
	b.conflicts(t, batch(remove(a, 7)), journal.ConflictError{Key: a, Want: 7})
	first := b.append(t, put(a, 0, "x"))
	b.conflicts(t, batch(put(a, 0, "y")), journal.ConflictError{Key: a, Current: first})
	second := b.append(t, put(a, first, "y"))
	if second <= first {
		t.Errorf("revision %d after %d", second, first)
	}
	b.conflicts(t, batch(put(a, first, "z")), journal.ConflictError{Key: a, Want: first, Current: second})
	b.conflicts(t, batch(remove(a, first)), journal.ConflictError{Key: a, Want: first, Current: second})
	third := b.append(t, remove(a, second))
	if third <= second {
		t.Errorf("a deletion has revision %d, after %d", third, second)
	}
	b.conflicts(t, batch(remove(a, second)), journal.ConflictError{Key: a, Want: second})
	b.append(t, put(a, 0, "again"))
}

func testGuards(t *testing.T, b *bench) {
	ns, a := key(nodes, "ns"), key(pods, "a")
	guarded := func(rev object.Revision, e journal.Entry) journal.Batch {
		return journal.Batch{Entries: []journal.Entry{e}, Guards: []journal.Guard{{Key: ns, Revision: rev}}}
	}
	b.conflicts(t, guarded(3, put(a, 0, "")), journal.ConflictError{Key: ns, Want: 3, Guard: true})
	at := b.append(t, put(ns, 0, ""))
	b.conflicts(t, guarded(0, put(a, 0, "")), journal.ConflictError{Key: ns, Current: at, Guard: true})
	rev := b.commit(t, guarded(at, put(a, 0, "")))
	now := b.append(t, put(ns, at, "changed"))
	b.conflicts(t, guarded(at, put(a, rev, "")), journal.ConflictError{Key: ns, Want: at, Current: now, Guard: true})
	b.append(t, remove(ns, now))
	b.commit(t, guarded(0, put(a, rev, "")))
}

func testBadBatches(t *testing.T, b *bench) {
	a, c := key(pods, "a"), key(pods, "c")
	for _, test := range []struct {
		batch journal.Batch
		want  string
	}{
		{batch(), "no entries"},
		{journal.Batch{Guards: []journal.Guard{{Key: a}}}, "no entries"},
		{batch(remove(a, 0)), "which must not exist"},
		{batch(put(a, 0, ""), put(a, 0, "")), "twice"},
		{batch(journal.Entry{Key: c, Object: put(a, 0, "").Object}), "under the key"},
	} {
		_, err := b.Append(t.Context(), test.batch)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("append: %v, want %q", err, test.want)
		}
	}
	if n := len(b.twin.Entries()); n > 0 {
		t.Errorf("%d entries", n)
	}
}

func testBatches(t *testing.T, b *bench) {
	p, d, n := key(pods, "a"), key(deploys, "a"), key(nodes, "a")
	first := b.append(t, put(p, 0, ""), put(d, 0, ""))
	if b.twin.batches != 1 {
		t.Errorf("a batch was applied in %d calls", b.twin.batches)
	}
	entries := b.twin.Entries()
	if len(entries) != 2 || entries[1].Revision != first || entries[0].Revision > first {
		t.Fatalf("entries %v, returned %d", entries, first)
	}
	at := entries[0].Revision
	// One failed precondition or guard rejects the whole batch.
	b.conflicts(t, batch(put(n, 0, ""), put(p, at, ""), put(d, 0, "")), journal.ConflictError{Key: d, Current: first})
	if b.twin.Revision(n) != 0 || b.twin.Revision(p) != at {
		t.Error("a part of a batch was committed")
	}
	b.append(t, put(n, 0, ""), put(p, at, ""), remove(d, first))
	if b.twin.batches != 2 {
		t.Errorf("two batches were applied in %d calls", b.twin.batches)
	}

	two := batch(put(key(pods, "x"), 0, ""), put(key(pods, "y"), 0, ""))
	_, err := b.Append(t.Context(), two)
	if b.engine.OnePerResource {
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("two objects of a resource in a batch: %v", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	entries = b.twin.Entries()
	x, y := entries[len(entries)-2].Revision, entries[len(entries)-1].Revision
	if y != x+1 {
		t.Errorf("revisions %d and %d in a batch", x, y)
	}
}

func testCancelled(t *testing.T, b *bench) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Append(ctx, batch(put(key(pods, "a"), 0, ""))); !errors.Is(err, context.Canceled) {
		t.Errorf("append: %v", err)
	}
	if n := len(b.twin.Entries()); n != 0 {
		t.Errorf("%d entries", n)
	}
}

// testOneWins: of several writers that expect the same revision, exactly one succeeds.
func testOneWins(t *testing.T, b *bench) {
	const writers, rounds = 8, 20
	a := key(pods, "a")
	var prev object.Revision
	for range rounds {
		var wins atomic.Int64
		var all sync.WaitGroup
		for i := range writers {
			all.Go(func() {
				rev, err := b.Append(t.Context(), batch(put(a, prev, fmt.Sprint(i))))
				var conflict *journal.ConflictError
				switch {
				case err == nil:
					wins.Add(1)
					if at := b.twin.Revision(a); at < rev {
						t.Errorf("append returned %d, sink is at %d", rev, at)
					}
				case !errors.As(err, &conflict):
					t.Errorf("append: %v", err)
				case conflict.Want != prev || conflict.Current <= prev:
					t.Errorf("conflict %+v, the writer expected %d", conflict, prev)
				}
			})
		}
		all.Wait()
		if wins.Load() != 1 {
			t.Fatalf("%d of %d writers won", wins.Load(), writers)
		}
		prev = b.twin.Revision(a)
	}
}

// testGuardsRace: a guard holds at the moment of the commit. A pod is created under the guard that
// its node exists while the node is removed: if both succeed, the pod came first.
func testGuardsRace(t *testing.T, b *bench) {
	for i := range 30 {
		node, pod := key(nodes, fmt.Sprint(i)), key(pods, fmt.Sprint(i))
		at := b.append(t, put(node, 0, ""))
		var made, gone object.Revision
		var all sync.WaitGroup
		all.Go(func() {
			made, _ = b.Append(t.Context(), journal.Batch{
				Entries: []journal.Entry{put(pod, 0, "")},
				Guards:  []journal.Guard{{Key: node, Revision: at}},
			})
		})
		all.Go(func() { gone, _ = b.Append(t.Context(), batch(remove(node, at))) })
		all.Wait()
		if gone == 0 {
			t.Fatal("nothing stood against removing the node")
		}
		if made > gone {
			t.Fatalf("pod made at %d, node gone at %d", made, gone)
		}
	}
}

// testManyWriters: every acknowledged write, and no other, is applied once; Twin checks the order.
func testManyWriters(t *testing.T, b *bench) {
	const writers, writes, keys = 16, 40, 5
	var acknowledged sync.Map // of revisions
	var count atomic.Int64
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := range writes {
				k := key(pods, fmt.Sprint((w+i)%keys))
				e := put(k, b.twin.Revision(k), fmt.Sprint(w, i))
				if e.Prev > 0 && i%7 == 0 {
					e.Object = nil
				}
				rev, err := b.Append(t.Context(), batch(e))
				var conflict *journal.ConflictError
				if errors.As(err, &conflict) {
					continue
				}
				if err != nil {
					t.Errorf("append: %v", err)
					return
				}
				if _, twice := acknowledged.LoadOrStore(rev, w); twice {
					t.Errorf("two writers were given revision %d", rev)
				}
				count.Add(1)
			}
		})
	}
	all.Wait()
	entries := b.twin.Entries()
	if len(entries) != int(count.Load()) {
		t.Errorf("%d entries, %d acknowledged", len(entries), count.Load())
	}
	for _, e := range entries {
		if _, ok := acknowledged.Load(e.Revision); !ok {
			t.Errorf("revision %d was not acknowledged", e.Revision)
		}
	}
	if !b.engine.Forgets {
		b.restart(t)
	}
}

func testClose(t *testing.T, b *bench) {
	// Writers run while the journal closes: each write is committed or rejected.
	var all sync.WaitGroup
	var count atomic.Int64
	started := make(chan struct{}, 8)
	for w := range 8 {
		all.Go(func() {
			for i := 0; ; i++ {
				_, err := b.Append(t.Context(), batch(put(key(pods, fmt.Sprint(w, "-", i)), 0, "")))
				if errors.Is(err, journal.ErrClosed) {
					return
				}
				if err != nil {
					t.Errorf("append: %v", err)
					return
				}
				count.Add(1)
				if i == 0 {
					started <- struct{}{}
				}
			}
		})
	}
	for range 8 {
		<-started
	}
	if err := b.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	at := len(b.twin.Entries())
	all.Wait()
	if n := len(b.twin.Entries()); n != at || n != int(count.Load()) {
		t.Errorf("%d entries, %d when closed, %d acknowledged", n, at, count.Load())
	}
	if err := b.Close(); err != nil {
		t.Errorf("close again: %v", err)
	}
	if _, err := b.Append(t.Context(), batch(put(key(pods, "a"), 0, ""))); !errors.Is(err, journal.ErrClosed) {
		t.Errorf("append after close: %v", err)
	}
	if _, err := b.History(t.Context(), pods, 0, 1, 1); !errors.Is(err, journal.ErrClosed) {
		t.Errorf("history after close: %v", err)
	}
	if err := b.Compact(t.Context(), 1); !errors.Is(err, journal.ErrClosed) {
		t.Errorf("compact after close: %v", err)
	}
}

func testHead(t *testing.T, b *bench) {
	before, bytes := b.Head()
	e := put(key(pods, "a"), 0, strings.Repeat("x", 1000))
	rev := b.append(t, e)
	head, more := b.Head()
	if head != rev || head <= before || more-bytes != int64(e.Size()) || e.Size() < 1000 {
		t.Errorf("head %d of %d bytes, then %d of %d bytes, with an entry of %d at %d", before, bytes, head, more, e.Size(), rev)
	}
}
