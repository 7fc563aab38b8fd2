package webhook

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/journal/memory"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/state"
	"github.com/kapok-dev/kapok/test/seeds"

	discoveryv1 "k8s.io/api/discovery/v1"
)

func emptyState(t testing.TB) *state.State {
	t.Helper()
	j := memory.New()
	t.Cleanup(func() { j.Close() })
	st, err := state.Open(context.Background(), j, state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// putSlice stores an EndpointSlice of a service, or deletes it if the service is "-".
func putSlice(t testing.TB, st *state.State, namespace, name, service string) {
	t.Helper()
	key := object.Key{Resource: endpointSlices, Namespace: namespace, Name: name}
	entry := journal.Entry{Key: key}
	if o, _ := st.Get(key); o != nil {
		entry.Prev = o.Revision
	}
	if service != "-" {
		labels := map[string]any{}
		if service != "" {
			labels[discoveryv1.LabelServiceName] = service
		}
		o, err := object.New(key, map[string]any{
			"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
			"metadata":  map[string]any{"name": name, "namespace": namespace, "uid": "u", "labels": labels},
			"ports":     []any{map[string]any{"name": "web", "port": int64(443)}},
			"endpoints": []any{map[string]any{"addresses": []any{"10.0.0.1"}}},
		}, 0, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		entry.Object = o
	}
	if _, err := st.Append(context.Background(), journal.Batch{Entries: []journal.Entry{entry}}); err != nil {
		t.Fatal(err)
	}
}

// TestSlicesAreReadOnce counts the slices that are read: each once, and then the changed ones.
func TestSlicesAreReadOnce(t *testing.T) {
	st := emptyState(t)
	for i := range 1000 {
		putSlice(t, st, "default", fmt.Sprintf("s%d", i), fmt.Sprintf("service%d", i/2))
	}
	s := InState(st).(stored)
	for i, want := range []int{1000, 1, 2} {
		switch i {
		case 1:
			putSlice(t, st, "default", "s1", "service7")
		case 2:
			putSlice(t, st, "default", "s2", "-")
			putSlice(t, st, "other", "s1", "service7")
		}
		for range 3 {
			if got := s.slices.derived.Load(); got.read != want {
				t.Errorf("step %d: %d slices read, want %d", i, got.read, want)
			}
		}
	}
	if all := s.slices.derived.Load().of("default", "service7"); len(all) != 3 {
		t.Errorf("%d slices of service7", len(all))
	}
	if address := s.endpoint("default", "service7", "web"); address != "10.0.0.1:443" {
		t.Errorf("got %q", address)
	}
}

// TestSlicesLikeAScan moves slices from service to service, and compares the index with a scan of
// all slices.
func TestSlicesLikeAScan(t *testing.T) {
	seed := seeds.Of(t)
	r := rand.New(rand.NewPCG(seed, 0))
	st := emptyState(t)
	s := InState(st).(stored)
	stored := map[string]bool{}
	for range 2000 {
		namespace, name, service := fmt.Sprint("n", r.IntN(2)), fmt.Sprint("s", r.IntN(20)), []string{"-", "", "a", "b", "ab"}[r.IntN(5)]
		if service == "-" && !stored[namespace+name] {
			continue
		}
		stored[namespace+name] = service != "-"
		putSlice(t, st, namespace, name, service)
		if r.IntN(3) > 0 {
			continue
		}
		before := s.slices.derived.Load()
		for _, namespace := range []string{"n0", "n1"} {
			for _, service := range []string{"a", "b", "ab", "none"} {
				var want []*object.Object
				for o := range st.Snapshot(endpointSlices).All(namespace) {
					if o.Meta.Labels.Get(discoveryv1.LabelServiceName) == service {
						want = append(want, o)
					}
				}
				if got := before.of(namespace, service); !slices.Equal(got, want) {
					t.Fatalf("%s in %s: %d slices, want %d", service, namespace, len(got), len(want))
				}
			}
		}
	}
}

// BenchmarkResolve resolves one service among many.
func BenchmarkResolve(b *testing.B) {
	for _, n := range []int{10, 100, 1000, 10_000} {
		b.Run(fmt.Sprintf("slices=%d", n), func(b *testing.B) {
			st := emptyState(b)
			for i := range n {
				putSlice(b, st, "default", fmt.Sprintf("s%d", i), fmt.Sprintf("service%d", i))
			}
			s := InState(st).(stored)
			b.ReportAllocs()
			for b.Loop() {
				if s.endpoint("default", "service7", "web") == "" {
					b.Fatal("not found")
				}
			}
		})
	}
}
