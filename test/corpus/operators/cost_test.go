package operators

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/kapok-dev/kapok/internal/schema"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// An item is an object of the corpus and its judge.
type item struct {
	*engine
	object tree // the original, which is valid
	normal tree // as it is stored
}

// items returns the valid objects of the corpus, in the order of the files.
var items = sync.OnceValues(func() ([]item, error) {
	c, err := loaded()
	if err != nil {
		return nil, err
	}
	engines := map[any]*engine{}
	for _, v := range versions(c.round(0)) {
		e, err := newEngine(v)
		if err != nil {
			continue // TestEngine reports it
		}
		engines[v.gvk()] = e
	}
	var all []item
	for _, m := range c.objects {
		e := engines[m.gvk()]
		if e == nil {
			continue
		}
		normal := clone(m.object).(tree)
		if e.ours.Normalise(normal, nil) == nil && len(e.ours.Validate(context.Background(), normal)) == 0 && len(e.ours.Evaluate(context.Background(), normal, nil, nil, nil)) == 0 {
			all = append(all, item{e, m.object, normal})
		}
	}
	return all, nil
})

func loadItems(t testing.TB) []item {
	t.Helper()
	all, err := items()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Fatal("no object is valid")
	}
	return all
}

// A side is one of two implementations.
type side struct {
	name  string
	pass  func(item, tree) field.ErrorList // prunes, defaults and validates an object
	rules func(item, tree) field.ErrorList // evaluates its x-kubernetes-validations
}

var sides = []side{
	{"kapok", func(i item, obj tree) field.ErrorList {
		if err := i.ours.Normalise(obj, nil); err != nil {
			return field.ErrorList{field.InternalError(nil, err)}
		}
		return i.ours.Validate(context.Background(), obj)
	}, func(i item, obj tree) field.ErrorList {
		return i.ours.Evaluate(context.Background(), obj, nil, nil, nil)
	}},
	{"apiextensions", func(i item, obj tree) field.ErrorList {
		if _, err := i.theirs.normalise(obj, false); err != nil {
			return field.ErrorList{field.InternalError(nil, err)}
		}
		return i.theirs.validate(obj)
	}, func(i item, obj tree) field.ErrorList { return i.theirs.evaluate(obj, nil, nil) }},
}

// benchmarkPass processes all objects of the corpus with one side, and reports the cost of one: in
// the original form, with fields to prune and to default, or in the stored form. Cloning the object
// is not counted.
func benchmarkPass(b *testing.B, s side, stored bool) {
	all := loadItems(b)
	batch := make([]tree, len(all))
	b.ReportAllocs()
	b.ResetTimer()
	for n := 0; n < b.N; n += len(all) {
		b.StopTimer()
		for i := range all {
			if stored {
				batch[i] = clone(all[i].normal).(tree)
			} else {
				batch[i] = clone(all[i].object).(tree)
			}
		}
		b.StartTimer()
		for i := range min(len(all), b.N-n) {
			if err := s.pass(all[i], batch[i]); err != nil {
				b.Fatalf("%v: %v", all[i].engine, err)
			}
		}
	}
}

func BenchmarkPass(b *testing.B) {
	for _, stored := range []bool{false, true} {
		for _, s := range sides {
			b.Run(fmt.Sprintf("stored=%v/by=%s", stored, s.name), func(b *testing.B) { benchmarkPass(b, s, stored) })
		}
	}
}

// BenchmarkRules evaluates the rules of the objects whose kinds have any.
func BenchmarkRules(b *testing.B) {
	var all []item
	for _, i := range loadItems(b) {
		if i.theirs.rules != nil {
			all = append(all, i)
		}
	}
	for _, s := range sides {
		b.Run("by="+s.name, func(b *testing.B) {
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				i := all[n%len(all)]
				if errs := s.rules(i, i.normal); len(errs) > 0 {
					b.Fatalf("%v: %v", i.engine, errs)
				}
			}
		})
	}
}

// TestAllocations counts the allocations of a pass over the corpus: at most a tenth of those of
// Kubernetes' packages.
func TestAllocations(t *testing.T) {
	all := loadItems(t)
	var allocs, bytes [2]float64
	for n, s := range sides {
		objects := make([]tree, len(all))
		for i := range all {
			objects[i] = clone(all[i].object).(tree)
			if errs := s.pass(all[i], clone(all[i].object).(tree)); len(errs) > 0 { // fills caches
				t.Fatalf("%s, %v: %v", s.name, all[i].engine, errs)
			}
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for i := range all {
			_ = s.pass(all[i], objects[i])
		}
		runtime.ReadMemStats(&after)
		allocs[n] = float64(after.Mallocs-before.Mallocs) / float64(len(all))
		bytes[n] = float64(after.TotalAlloc-before.TotalAlloc) / float64(len(all))
		t.Logf("%s: %.1f allocations and %.0f bytes an object, of %d objects", s.name, allocs[n], bytes[n], len(all))
	}
	if allocs[0]*10 > allocs[1] {
		t.Errorf("%.1f allocations an object are not a tenth of %.1f", allocs[0], allocs[1])
	}
}

// BenchmarkCompile compiles the schemas of all definitions, from the stored JSON.
func BenchmarkCompile(b *testing.B) {
	c := load(b)
	var all []*version
	var texts [][]byte
	for _, v := range versions(c.round(0)) {
		text, err := json.Marshal(v.schema())
		if err != nil {
			b.Fatal(err)
		}
		all, texts = append(all, v), append(texts, text)
	}
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		i := n % len(all)
		var s *apiextensionsv1.JSONSchemaProps
		if err := json.Unmarshal(texts[i], &s); err != nil {
			b.Fatal(err)
		}
		if _, err := schema.Compile(s, all[i].crd.Spec.PreserveUnknownFields); err != nil {
			b.Fatalf("%v: %v", all[i], err)
		}
	}
}

// TestMemory measures the memory of the compiled schemas of all definitions.
func TestMemory(t *testing.T) {
	c := load(t)
	all := versions(c.round(0))
	weigh := func(name string, compile func(*version) any) float64 {
		kept := make([]any, len(all))
		var before, after runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&before)
		for i, v := range all {
			kept[i] = compile(v)
		}
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&after)
		each := float64(after.HeapAlloc-before.HeapAlloc) / float64(len(all)) / 1024
		t.Logf("%s: %.1f KiB a version, of %d versions", name, each, len(all))
		runtime.KeepAlive(kept)
		return each
	}
	ours := weigh("kapok", func(v *version) any {
		p, _ := schema.Compile(v.schema(), v.crd.Spec.PreserveUnknownFields)
		return p
	})
	theirs := weigh("apiextensions", func(v *version) any {
		j, _ := newJudge(v, false)
		return j
	})
	if ours*10 > theirs {
		t.Errorf("%.1f KiB are not a tenth of %.1f", ours, theirs)
	}
}
