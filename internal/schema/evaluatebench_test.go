package schema

import (
	"context"
	"runtime"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

// ruled returns a schema of thirty fields with five typical rules of operators, and an object that
// satisfies them.
func ruled(tb testing.TB) (*apiextensionsv1.JSONSchemaProps, map[string]any) {
	tb.Helper()
	e := loadExample(tb, "webservice")
	rule := func(s *apiextensionsv1.JSONSchemaProps, rule string) {
		s.XValidations = append(s.XValidations, apiextensionsv1.ValidationRule{Rule: rule})
	}
	spec := e.Schema.Properties["spec"]
	rule(&spec, "!has(self.startingDeadlineSeconds) || self.startingDeadlineSeconds >= 10 || self.concurrencyPolicy == 'Allow'")
	rule(&spec, "!has(self.env) || !has(self.labels) || self.env.all(e, !(e.name in self.labels))")
	image := spec.Properties["image"]
	rule(&image, "self.contains(':') || self.contains('@')")
	spec.Properties["image"] = image
	ports := spec.Properties["ports"].Items.Schema
	rule(ports, "!has(self.name) || self.name.matches('^[a-z][a-z0-9-]*$')")
	replicas := spec.Properties["replicas"]
	rule(&replicas, "self >= oldSelf || self > 0")
	spec.Properties["replicas"] = replicas
	e.Schema.Properties["spec"] = spec
	obj := e.Objects[0]
	if err := mustCompile(tb, e.Schema).Normalise(obj, nil); err != nil {
		tb.Fatal(err)
	}
	return e.Schema, obj
}

// BenchmarkEvaluate measures the additional cost of rules: five rules on an object of thirty
// fields, created and updated.
func BenchmarkEvaluate(b *testing.B) {
	s, obj := ruled(b)
	p := mustCompile(b, s)
	j, err := newJudge(b, s, false)
	if err != nil {
		b.Fatal(err)
	}
	old := clone(obj).(map[string]any)
	for name, run := range map[string]func() int{
		"create":       func() int { return len(p.Evaluate(context.Background(), obj, nil, nil, nil)) },
		"update":       func() int { return len(p.Evaluate(context.Background(), obj, old, nil, nil)) },
		"create-judge": func() int { errs, _, _ := j.evaluate(obj, nil); return len(errs) },
		"update-judge": func() int { errs, _, _ := j.evaluate(obj, old); return len(errs) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if n := run(); n > 0 {
					b.Fatalf("%d errors", n)
				}
			}
		})
	}
}

// BenchmarkExcuse measures an update with 8,000 unchanged items that violate a rule.
func BenchmarkExcuse(b *testing.B) {
	for name, list := range map[string]string{"keyed": keyedBySome, "atomic": ""} {
		p := manyProgram(b, list)
		obj := map[string]any{"spec": manyItems(8000)}
		old := clone(obj).(map[string]any)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if errs := p.Evaluate(context.Background(), obj, old, nil, nil); len(errs) > 0 {
					b.Fatalf("%d errors", len(errs))
				}
			}
		})
	}
}

// BenchmarkConditionTree measures the compilation of five rules, and the memory that they retain.
func BenchmarkConditionTree(b *testing.B) {
	s, obj := ruled(b)
	mustCompile(b, s).Evaluate(context.Background(), obj, nil, nil, nil) // creates the shared environment
	b.Run("ours", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			p := mustCompile(b, s)
			p.Evaluate(context.Background(), obj, nil, nil, nil)
		}
		b.ReportMetric(kept(func() any { p := mustCompile(b, s); p.Evaluate(context.Background(), obj, nil, nil, nil); return p })-
			kept(func() any { return mustCompile(b, s) }), "B/rule")
	})
	b.Run("judge", func(b *testing.B) {
		j, err := newJudge(b, s, false)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		for b.Loop() {
			cel.NewValidator(j.structural, true, celconfig.PerCallLimit)
		}
		b.ReportMetric(kept(func() any { return cel.NewValidator(j.structural, true, celconfig.PerCallLimit) }), "B/rule")
	})
}

// kept returns the number of bytes that one result keeps alive, for each rule.
func kept(make func() any) float64 {
	const many, rules = 20, 5
	var things [many]any
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for i := range things {
		things[i] = make()
	}
	used := heap() - before
	runtime.KeepAlive(&things)
	return float64(used) / many / rules
}
