package schema

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// BenchmarkRequest measures the cost of a write: an object of 1.5 KB with thirty fields is
// normalised and validated.
func BenchmarkRequest(b *testing.B) {
	e := loadExample(b, "webservice")
	p := mustCompile(b, e.Schema)
	j, err := newJudge(b, e.Schema, false)
	if err != nil {
		b.Fatal(err)
	}
	good, bad := e.Objects[0], e.Objects[1]
	b.Run("normalise", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := p.Normalise(good, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("validate", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if errs := p.Validate(context.Background(), good); len(errs) > 0 {
				b.Fatal(errs)
			}
		}
	})
	b.Run("both", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := p.Normalise(good, nil); err != nil {
				b.Fatal(err)
			}
			if errs := p.Validate(context.Background(), good); len(errs) > 0 {
				b.Fatal(errs)
			}
		}
	})
	b.Run("both-judge", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := j.normalise(good, false); err != nil {
				b.Fatal(err)
			}
			if errs := j.validate(good); len(errs) > 0 {
				b.Fatal(errs)
			}
		}
	})
	b.Run("invalid", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if errs := p.Validate(context.Background(), bad); len(errs) == 0 {
				b.Fatal("no errors")
			}
		}
	})
	b.Run("invalid-judge", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if errs := j.validate(bad); len(errs) == 0 {
				b.Fatal("no errors")
			}
		}
	})
}

// wide returns a schema of 150 fields in ten groups, each with a type and every third with one or
// two rules.
func wide() *apiextensionsv1.JSONSchemaProps {
	group := func(g int) apiextensionsv1.JSONSchemaProps {
		s := apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{}}
		for i := range 15 {
			f := apiextensionsv1.JSONSchemaProps{Type: "string", Description: "field of a schema, described at some length"}
			switch i % 6 {
			case 0:
				f.Pattern, f.MaxLength = "^[a-z]+$", ptr(int64(63))
			case 1:
				f.Type, f.Format, f.Minimum = "integer", "int32", ptr(0.0)
			case 2:
				f.Type = "boolean"
				f.Default = &apiextensionsv1.JSON{Raw: []byte("false")}
			case 3:
				f.Enum = []apiextensionsv1.JSON{{Raw: []byte(`"A"`)}, {Raw: []byte(`"B"`)}}
			}
			s.Properties[fmt.Sprintf("field%d%d", g, i)] = f
		}
		return s
	}
	spec := apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{}}
	for g := range 10 {
		spec.Properties[fmt.Sprintf("group%d", g)] = group(g)
	}
	return &apiextensionsv1.JSONSchemaProps{
		Type:       "object",
		Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": spec},
	}
}

// BenchmarkCompile measures the compilation of a definition of 150 fields, and the memory of its
// program.
func BenchmarkCompile(b *testing.B) {
	s := wide()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Compile(s, false); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(retained(b, s, 200)), "B/program")
}

// retained returns the number of bytes that one of n programs keeps alive.
func retained(tb testing.TB, s *apiextensionsv1.JSONSchemaProps, n int) int64 {
	programs := make([]*Program, n)
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	for i := range programs {
		p, err := Compile(s, false)
		if err != nil {
			tb.Fatal(err)
		}
		programs[i] = p
	}
	used := heap() - before
	runtime.KeepAlive(programs)
	return used / int64(n)
}
