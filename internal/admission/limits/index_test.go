package limits

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/journal/memory"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"
	"github.com/kapok-dev/kapok/test/seeds"

	corev1 "k8s.io/api/core/v1"
)

type world struct {
	testing.TB
	state *state.State
}

func newWorld(t testing.TB) world {
	st, err := state.Open(t.Context(), memory.New(), state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return world{t, st}
}

// put stores a LimitRange with a limit on the CPU of containers, or deletes it if cpu is "".
func (w world) put(namespace, name, cpu string) {
	w.Helper()
	key := object.Key{Resource: ranges, Namespace: namespace, Name: name}
	entry := journal.Entry{Key: key}
	if o, _ := w.state.Get(key); o != nil {
		entry.Prev = o.Revision
	}
	if cpu != "" {
		limit := map[string]any{"type": "Container", "max": map[string]any{"cpu": cpu}}
		tree := resource.Tree{"metadata": map[string]any{"name": name, "namespace": namespace, "uid": "u"}, "spec": map[string]any{"limits": []any{limit}}}
		var err error
		if entry.Object, err = object.New(key, tree, 0, time.Now()); err != nil {
			w.Fatal(err)
		}
	} else if entry.Prev == 0 {
		return
	}
	if _, err := w.state.Append(w.Context(), journal.Batch{Entries: []journal.Entry{entry}}); err != nil {
		w.Fatal(err)
	}
}

// TestChangeCostsWhatItChanges checks that only changed LimitRanges are decoded, however many there
// are.
func TestChangeCostsWhatItChanges(t *testing.T) {
	for _, n := range []int{10, 100, 1000} {
		w := newWorld(t)
		for i := range n {
			w.put(fmt.Sprint("ns", i%10), fmt.Sprint("l", i), "1")
		}
		p := New(w.state)
		check := func(what string, want int) {
			t.Helper()
			if got := p.ranges.Load().read; got != want {
				t.Errorf("of %d: %s: %d decoded, want %d", n, what, got, want)
			}
		}
		check("at first", n)
		for range 5 {
			w.put("ns1", "l1", "2")
		}
		check("a burst of changes of one", 1)
		w.put("ns1", "l1", "")
		check("deleted", 0)
	}
}

// TestRandomRanges compares the index after random changes with one built from scratch.
func TestRandomRanges(t *testing.T) {
	seed := seeds.Of(t)
	r := rand.New(rand.NewPCG(seed, 1))
	w := newWorld(t)
	p := New(w.state)
	for step := range 1000 {
		before := contents(p.ranges.Load())
		kept := p.ranges.Load()
		for range r.IntN(4) {
			w.put(fmt.Sprint("ns", r.IntN(3)), fmt.Sprint("l", r.IntN(4)), []string{"", "1", "2"}[r.IntN(3)])
		}
		if got, want := contents(p.ranges.Load()), contents(New(w.state).ranges.Load()); !reflect.DeepEqual(got, want) {
			t.Fatalf("step %d: %v, and from scratch %v", step, got, want)
		}
		if !reflect.DeepEqual(contents(kept), before) {
			t.Fatalf("step %d modified an index in use", step)
		}
	}
}

func contents(x *index) map[string][]*corev1.LimitRange {
	all := map[string][]*corev1.LimitRange{}
	x.namespaces.Scan(func(namespace string, list []*decoded) bool {
		for _, d := range list {
			all[namespace] = append(all[namespace], d.limits)
		}
		return true
	})
	return all
}

// BenchmarkAfterChange changes a LimitRange of another namespace, and applies the limits of a pod,
// with the given number of LimitRanges, ten in a namespace.
func BenchmarkAfterChange(b *testing.B) {
	for _, n := range []int{10, 100, 1000, 10000} {
		b.Run(fmt.Sprint("ranges=", n), func(b *testing.B) {
			w := newWorld(b)
			for i := range n {
				w.put(fmt.Sprint("ns", i/10), fmt.Sprint("l", i), "1")
			}
			p := New(w.state)
			a := &resource.Admitted{Request: &resource.Request{Namespace: "ns0"}}
			seen := func(*corev1.LimitRange) error { return nil }
			_ = p.each(a, seen)
			i := 0
			for b.Loop() {
				b.StopTimer()
				w.put("other", "l", fmt.Sprint(1+i%2))
				i++
				b.StartTimer()
				if err := p.each(a, seen); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
