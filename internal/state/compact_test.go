package state

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/journal/memory"
	"github.com/kapok-dev/kapok/internal/object"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// compactRig writes to a state; nodes are its quiet kind.
type compactRig struct {
	*State
	t *testing.T
}

func openCompactRig(t *testing.T, j journal.Journal, o Options) *compactRig {
	t.Helper()
	s, err := Open(t.Context(), j, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return &compactRig{s, t}
}

func (g *compactRig) write(resource schema.GroupResource) object.Revision {
	g.t.Helper()
	k := object.Key{Resource: resource, Name: "a"}
	e := journal.Entry{Key: k, Object: newObject(g.t, k, "x")}
	if o, _ := g.Get(k); o != nil {
		e.Prev = o.Revision
	}
	at, err := g.Append(g.t.Context(), journal.Batch{Entries: []journal.Entry{e}})
	if err != nil {
		g.t.Fatal(err)
	}
	return at
}

// reads returns for each revision whether lists and watches of the quiet kind can start there.
func (g *compactRig) reads(revisions ...object.Revision) (can []bool) {
	g.t.Helper()
	for _, at := range revisions {
		_, failed := g.SnapshotAt(g.t.Context(), nodes, at)
		if _, err := g.Watch(nodes, at); errors.Is(err, journal.ErrCompacted) != errors.Is(failed, journal.ErrCompacted) {
			g.t.Errorf("at revision %d: watch %v, list %v", at, err, failed)
		}
		can = append(can, failed == nil)
	}
	return can
}

// TestCompactionOfQuietKind: after a compaction by the journal, older revisions are gone also for a
// kind whose whole history is still in memory; a watch that has read every event continues, one
// that has not gets ErrCompacted.
func TestCompactionOfQuietKind(t *testing.T) {
	for name, open := range map[string]func() (journal.Journal, error){
		"no history": func() (journal.Journal, error) { return memory.New(), nil },
		"kept":       func() (journal.Journal, error) { return memory.NewStore().Open(0) },
	} {
		t.Run(name, func(t *testing.T) {
			j, err := open()
			if err != nil {
				t.Fatal(err)
			}
			g := openCompactRig(t, j, Options{})
			first := g.write(nodes)
			second := g.write(nodes)
			seen, err := g.Watch(nodes, first)
			if err != nil {
				t.Fatal(err)
			}
			if events, _, err := seen.Next(t.Context()); len(events) != 1 || err != nil {
				t.Fatalf("%v, %v", events, err)
			}
			missed, err := g.Watch(nodes, first)
			if err != nil {
				t.Fatal(err)
			}
			var newest object.Revision
			for range 10 {
				newest = g.write(pods)
			}
			if got := g.reads(first, second, newest); !slices.Equal(got, []bool{true, true, true}) {
				t.Errorf("before compaction: %v", got)
			}
			if err := g.Compact(t.Context(), newest-1); err != nil {
				t.Fatal(err)
			}
			if got := g.reads(first, second, newest-2, newest-1, newest); !slices.Equal(got, []bool{false, false, false, true, true}) {
				t.Errorf("after compaction: %v", got)
			}
			if got := g.Compacted(); got != newest-1 {
				t.Errorf("compacted up to %d, want %d", got, newest-1)
			}
			if _, _, err := missed.Next(t.Context()); !errors.Is(err, journal.ErrCompacted) {
				t.Errorf("a watch that has missed an event: %v", err)
			}
			g.write(nodes)
			if events, _, err := seen.Next(t.Context()); len(events) != 1 || err != nil {
				t.Errorf("a watch that has seen everything: %v, %v", events, err)
			}
		})
	}
}

// TestCompactionByTheJournal: a journal that another process compacts, as other replicas do with
// etcd, need not notify the state.
func TestCompactionByTheJournal(t *testing.T) {
	store := memory.NewStore()
	j, err := store.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	g := openCompactRig(t, j, Options{})
	first := g.write(nodes)
	newest := g.write(pods)
	store.Compact(newest)
	if got := g.reads(first, newest); !slices.Equal(got, []bool{false, true}) {
		t.Errorf("after compaction: %v", got)
	}
}

// TestHistoryAge: without a Compactor, history expires by age, for quiet kinds as for others, with
// and without writes.
func TestHistoryAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const age = 5 * time.Minute
		g := openCompactRig(t, memory.New(), Options{HistoryAge: age})
		first := g.write(nodes)
		second := g.write(nodes)
		time.Sleep(age / 2)
		third := g.write(pods)
		time.Sleep(age/2 - time.Second)
		if got := g.reads(first, second, third); !slices.Equal(got, []bool{true, true, true}) {
			t.Errorf("before the age: %v", got)
		}
		time.Sleep(time.Second)
		if got := g.reads(first, second, third); !slices.Equal(got, []bool{false, true, true}) {
			t.Errorf("at the age: %v", got)
		}
		time.Sleep(age)
		if got := g.reads(first, second, third); !slices.Equal(got, []bool{false, false, true}) {
			t.Errorf("after a pause: %v", got)
		}
		for range 1000 {
			g.write(pods)
			time.Sleep(time.Second)
		}
		if n := len(g.mu.ages.spans); n > 40 {
			t.Errorf("%d spans are remembered", n)
		}
		if _, err := g.Watch(nodes, g.Revision()-280); err != nil {
			t.Errorf("history of the last 280 seconds: %v", err)
		}
		if _, err := g.Watch(nodes, g.Revision()-320); !errors.Is(err, journal.ErrCompacted) {
			t.Errorf("history of the last 320 seconds: %v", err)
		}
	})
}

// TestHistoryWithoutAge: without an age, time alone evicts nothing.
func TestHistoryWithoutAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := openCompactRig(t, memory.New(), Options{})
		first := g.write(nodes)
		g.write(pods)
		time.Sleep(1000 * time.Hour)
		if got := g.reads(first); !slices.Equal(got, []bool{true}) {
			t.Errorf("after a long time: %v", got)
		}
	})
}
