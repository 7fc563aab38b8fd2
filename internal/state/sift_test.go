package state

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/journal/memory"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/test/seeds"

	"k8s.io/apimachinery/pkg/labels"
)

// labelled is an object with one label.
func labelled(t testing.TB, key object.Key, value string) *object.Object {
	t.Helper()
	o, err := object.New(key, map[string]any{"metadata": map[string]any{"uid": key.String(), "labels": map[string]any{"shade": value}}}, 1, time.Unix(7, 0))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// TestSift compares walks through an index that changes, and through older ones, with walks over
// all that was written.
func TestSift(t *testing.T) {
	seed := seeds.Of(t)
	random := rand.New(rand.NewPCG(seed, 0))
	s, err := Open(t.Context(), memory.New(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	namespaces := []string{"a", "a-b", "aa", "b", "c"}
	names := []string{"n", "n-1", "n1", "o", "p", "z"}
	wanted := labels.SelectorFromSet(labels.Set{"shade": "blue-1"})
	sieve := object.SieveOf(wanted)
	m := &model{}
	held := 0
	for range 600 {
		key := object.Key{Resource: pods, Namespace: namespaces[random.IntN(len(namespaces))], Name: names[random.IntN(len(names))]}
		e := journal.Entry{Key: key}
		current, _ := s.Get(key)
		if current != nil {
			e.Prev = current.Revision
		}
		if current == nil || random.IntN(4) > 0 {
			e.Object = labelled(t, key, fmt.Sprintf("blue-%d", random.IntN(3)))
		}
		if e.Revision, err = s.Append(t.Context(), journal.Batch{Entries: []journal.Entry{e}}); err != nil {
			t.Fatal(err)
		}
		m.entries = append(m.entries, e)

		at := e.Revision - object.Revision(random.IntN(5))
		snap, err := s.SnapshotAt(t.Context(), pods, max(at, 1))
		if err != nil {
			t.Fatal(err)
		}
		namespace := append(namespaces, "", "a-", "d")[random.IntN(len(namespaces)+3)]
		fromNamespace := append(namespaces, "")[random.IntN(len(namespaces)+1)]
		fromName := append(names, "")[random.IntN(len(names)+1)]
		var want []string
		for key := range m.at(pods, max(at, 1)) {
			if (namespace == "" || key.Namespace == namespace) && !key.Less(object.Key{Namespace: fromNamespace, Name: fromName}) {
				want = append(want, key.String())
			}
		}
		slices.Sort(want)
		var got []string
		for o, may := range snap.Sift(sieve, namespace, fromNamespace, fromName) {
			got = append(got, o.Key.String())
			if !may {
				held++
			}
			if wanted.Matches(&o.Meta.Labels) && !may {
				t.Fatalf("%s is held back, with %s", o.Key, o.Meta.Labels)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Fatalf("namespace %q from %q %q: got %v, want %v", namespace, fromNamespace, fromName, got, want)
		}
	}
	if held == 0 {
		t.Error("nothing is ever held back")
	}
}

// BenchmarkSift walks over 5,000 objects, of which 100 are wanted.
func BenchmarkSift(b *testing.B) {
	s, err := Open(b.Context(), memory.New(), Options{})
	if err != nil {
		b.Fatal(err)
	}
	for i := range 5000 {
		k := benchKey(i)
		e := journal.Entry{Key: k, Object: labelled(b, k, fmt.Sprintf("blue-%d", i%50))}
		if _, err := s.Append(b.Context(), journal.Batch{Entries: []journal.Entry{e}}); err != nil {
			b.Fatal(err)
		}
	}
	selector := labels.SelectorFromSet(labels.Set{"shade": "blue-7"})
	b.ReportAllocs()
	for b.Loop() {
		found := 0
		for o, may := range s.Snapshot(pods).Sift(object.SieveOf(selector), "default", "default", "") {
			if may && selector.Matches(&o.Meta.Labels) {
				found++
			}
		}
		if found != 100 {
			b.Fatal(found)
		}
	}
}
