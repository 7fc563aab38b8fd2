package state

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/journal/memory"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/test/seeds"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// contents is a derived value that records its input.
type contents struct {
	objects  map[object.Key]*object.Object
	folded   int // objects in the last step
	complete bool
	err      error
}

func deriveContents(s *State) *Derived[*contents] {
	return Derive(s, func(last *contents, c *Changes) *contents {
		next := &contents{objects: map[object.Key]*object.Object{}, complete: c.Complete, err: c.Err}
		if last != nil {
			next.objects = maps.Clone(last.objects)
		}
		for key, o := range c.Objects() {
			next.folded++
			if o == nil {
				delete(next.objects, key)
			} else {
				next.objects[key] = o
			}
		}
		return next
	}, pods, nodes)
}

// putAll writes objects in one batch; a nil text deletes.
func putAll(t testing.TB, s *State, texts map[object.Key]*string) {
	t.Helper()
	var b journal.Batch
	for key, text := range texts {
		e := journal.Entry{Key: key, Prev: s.revision(key)}
		if text != nil {
			e.Object = newObject(t, key, *text)
		} else if e.Prev == 0 {
			continue
		}
		b.Entries = append(b.Entries, e)
	}
	if len(b.Entries) == 0 {
		return
	}
	if _, err := s.Append(t.Context(), b); err != nil {
		t.Fatal(err)
	}
}

func put(t testing.TB, s *State, key object.Key, text string) {
	t.Helper()
	putAll(t, s, map[object.Key]*string{key: &text})
}

func podKey(i int) object.Key {
	return object.Key{Resource: pods, Namespace: "n", Name: fmt.Sprint("pod", i)}
}

// TestDerivedRandom compares a derived value with what is stored, after random writes, rebases,
// compactions, and with little memory for history.
func TestDerivedRandom(t *testing.T) {
	seed := seeds.Of(t)
	r := rand.New(rand.NewPCG(seed, 1))
	for _, bytes := range []int{0, 4000} {
		t.Run(fmt.Sprint("history=", bytes), func(t *testing.T) {
			s, err := Open(t.Context(), memory.New(), Options{HistoryBytes: bytes})
			if err != nil {
				t.Fatal(err)
			}
			d := deriveContents(s)
			complete, last := 0, (*contents)(nil)
			for i := range 2000 {
				changed := map[object.Key]bool{}
				whole := i == 0
				for range r.IntN(4) {
					batch := map[object.Key]*string{}
					for range 1 + r.IntN(4) {
						key := podKey(r.IntN(20))
						switch r.IntN(4) {
						case 0:
							key = object.Key{Resource: nodes, Name: key.Name}
						case 1:
							key.Resource = schema.GroupResource{Resource: "secrets"} // which the value is not derived from
						}
						text := strings.Repeat("x", r.IntN(100))
						if batch[key] = &text; r.IntN(3) == 0 {
							batch[key] = nil
						}
						if key.Resource == pods || key.Resource == nodes {
							changed[key] = true
						}
					}
					putAll(t, s, batch)
				}
				switch r.IntN(100) {
				case 0:
					if err := s.Compact(t.Context(), s.Revision()); err != nil {
						t.Fatal(err)
					}
				case 1:
					whole = true
					o := newObject(t, podKey(r.IntN(20)), "rebased")
					s.rebase([]journal.Entry{{Key: o.Key, Revision: s.Revision(), Object: o}}, s.Revision())
				}
				got := d.Load()
				want := map[object.Key]*object.Object{}
				for _, gr := range []schema.GroupResource{pods, nodes} {
					for o := range s.Snapshot(gr).All("") {
						want[o.Key] = o
					}
				}
				if !maps.Equal(got.objects, want) {
					t.Fatalf("step %d: %d objects, want %d", i, len(got.objects), len(want))
				}
				if got == last {
					continue
				}
				if last = got; got.complete {
					complete++
				} else if got.folded > len(changed) {
					t.Fatalf("step %d: folded %d objects, and %d have changed", i, got.folded, len(changed))
				}
				if whole && !got.complete {
					t.Fatalf("step %d: after a rebase the result is not complete", i)
				}
			}
			if bytes == 0 && complete > 100 {
				t.Errorf("computed from everything %d times", complete)
			}
		})
	}
}

// TestDerivedCostsWhatChanges: a step gets each changed object once and no others, however many
// exist, also if the history of older changes is gone.
func TestDerivedCostsWhatChanges(t *testing.T) {
	for _, n := range []int{10, 100, 1000} {
		s, err := Open(t.Context(), memory.New(), Options{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range n {
			put(t, s, podKey(i), "x")
		}
		d := deriveContents(s)
		check := func(what string, want int) {
			t.Helper()
			if got := d.Load(); got.folded != want {
				t.Errorf("of %d: %s: a step has folded %d objects, want %d", n, what, got.folded, want)
			}
		}
		check("at first", n)
		if again := d.Load(); again != d.Load() {
			t.Error("nothing has changed, and the value has")
		}
		put(t, s, podKey(1), "y")
		check("after one change", 1)
		for range 7 {
			put(t, s, podKey(1), "y")
			put(t, s, podKey(2), "y")
			put(t, s, object.Key{Resource: nodes, Name: "z"}, "y")
		}
		check("after a burst", 3)
		if err := s.Compact(t.Context(), s.Revision()); err != nil {
			t.Fatal(err)
		}
		put(t, s, podKey(3), "y")
		check("after a compaction", 1)
	}
}

// TestDerivedKnowsWhatCannotBeRead: the value is computed again when an object becomes unreadable,
// and when it becomes readable.
func TestDerivedKnowsWhatCannotBeRead(t *testing.T) {
	s, err := Open(t.Context(), memory.New(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	d := deriveContents(s)
	if err := d.Load().err; err != nil {
		t.Error(err)
	}
	broken := errors.New("no key")
	(*sink)(s).Unreadable(podKey(1), broken)
	if err := d.Load().err; !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	put(t, s, podKey(2), "x")
	if err := d.Load().err; !errors.Is(err, broken) {
		t.Errorf("after another write: got %v", err)
	}
	(*sink)(s).Unreadable(podKey(1), nil)
	if err := d.Load().err; err != nil {
		t.Error(err)
	}
}

// TestDerivedCountsForTheNextLoad: a Load after a write includes it, whatever other goroutines load
// at the same time.
func TestDerivedCountsForTheNextLoad(t *testing.T) {
	s, err := Open(t.Context(), memory.New(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	d := deriveContents(s)
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			for range 200 {
				key := podKey(w)
				put(t, s, key, "x")
				stored, _ := s.Get(key)
				if d.Load().objects[key] != stored {
					t.Errorf("%s is not the object just written", key)
					return
				}
			}
		})
	}
	writers.Wait()
}
