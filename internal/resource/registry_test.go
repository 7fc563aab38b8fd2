package resource_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/test/seeds"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

func retired(d *resource.Definition) bool {
	select {
	case <-d.Retired():
		return true
	default:
		return false
	}
}

func TestRetired(t *testing.T) {
	r := resource.NewRegistry()
	first := widgets()
	r.Put(first)
	second := widgets()
	r.Put(second)
	if !retired(first) || retired(second) {
		t.Error("a definition is retired when another takes its place, and not before")
	}
	third := second.AsTerminating()
	r.Put(third)
	if retired(second) || retired(third) {
		t.Error("watches go on while a definition is on its way out")
	}
	r.Remove(third.GroupResource())
	if !retired(third) {
		t.Error("a definition is retired when it is removed")
	}
	r.Put(third)
	if retired(third) {
		t.Error("a definition that comes back is not retired")
	}
}

// TestManyDefinitions compares a registry with a plain map, through many changes of
// which the older sets must see nothing.
func TestManyDefinitions(t *testing.T) {
	seed := seeds.Of(t)
	random := rand.New(rand.NewPCG(seed, 1))
	r := resource.NewRegistry()
	want := map[schema.GroupResource]*resource.Definition{}
	type moment struct {
		set  *resource.Set
		want map[schema.GroupResource]*resource.Definition
	}
	var moments []moment
	for range 300 {
		var batch []*resource.Definition
		for range random.IntN(4) {
			d := widgets()
			d.Plural = fmt.Sprintf("r%d", random.IntN(200))
			d.Kind = fmt.Sprintf("%sKind%d", d.Plural, random.IntN(3))
			if random.IntN(2) == 0 {
				d.Versions = append(d.Versions, &resource.Version{Name: "v1beta1", Group: "moved.example.com", Model: freeModel{}})
			}
			want[d.GroupResource()] = d
			batch = append(batch, d)
		}
		r.Put(batch...)
		gone := schema.GroupResource{Group: widgets().Group, Resource: fmt.Sprintf("r%d", random.IntN(200))}
		delete(want, gone)
		r.Remove(gone)
		moments = append(moments, moment{r.Load(), maps.Clone(want)})
	}
	for i, m := range moments {
		if len(m.set.All()) != len(m.want) {
			t.Fatalf("%d definitions after step %d, want %d", len(m.set.All()), i, len(m.want))
		}
		kinds := 0
		for n := range 200 {
			plural := fmt.Sprintf("r%d", n)
			gr := schema.GroupResource{Group: widgets().Group, Resource: plural}
			d := m.want[gr]
			var moved *resource.Definition
			if d != nil && d.In("moved.example.com") {
				moved = d
			}
			if got := m.set.Resource(schema.GroupResource{Group: "moved.example.com", Resource: plural}); got != moved {
				t.Fatalf("%s in another group after step %d: %p, want %p", plural, i, got, moved)
			}
			if got := m.set.Resource(gr); got != d {
				t.Fatalf("%s after step %d: %p, want %p", plural, i, got, d)
			}
			for k := range 3 {
				if got := m.set.Kind(schema.GroupKind{Group: "moved.example.com", Kind: fmt.Sprintf("%sKind%d", plural, k)}); got != nil && got != moved {
					t.Fatalf("kind of %s in another group after step %d: %p, want %p", plural, i, got, moved)
				}
				if got := m.set.Kind(schema.GroupKind{Group: gr.Group, Kind: fmt.Sprintf("%sKind%d", plural, k)}); got != nil {
					if kinds++; got != d {
						t.Fatalf("kind of %s after step %d: %p, want %p", plural, i, got, d)
					}
				}
			}
		}
		if kinds != len(m.want) {
			t.Fatalf("%d kinds after step %d, want %d", kinds, i, len(m.want))
		}
	}
	for _, d := range r.Load().All() {
		if retired(d) {
			t.Errorf("%s is retired, and served", d.Plural)
		}
	}
}

// BenchmarkRegistryPut adds one definition to many.
func BenchmarkRegistryPut(b *testing.B) {
	for _, many := range []int{200, 5000} {
		b.Run(fmt.Sprintf("definitions=%d", many), func(b *testing.B) {
			var all []*resource.Definition
			for i := range many {
				d := widgets()
				d.Plural = fmt.Sprintf("r%d", i)
				d.Kind = fmt.Sprintf("K%d", i)
				all = append(all, d)
			}
			r := resource.NewRegistry(all...)
			b.ReportAllocs()
			for b.Loop() {
				r.Put(all[len(all)-1])
			}
		})
	}
}
