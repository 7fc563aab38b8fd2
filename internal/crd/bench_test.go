package crd

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/internal/resource"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// large returns a CustomResourceDefinition of n fields.
func large(i, n int) string {
	var fields strings.Builder
	for f := range n {
		fmt.Fprintf(&fields, `              field%d: {type: string, description: "field %d of the resource, with a description of its use", maxLength: %d}
`, f, f, 10+f)
	}
	return fmt.Sprintf(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: large%[1]ds.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: large%[1]ds, kind: Large%[1]d}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
%[2]s
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
`, i, fields.String())
}

// BenchmarkEstablish creates CustomResourceDefinitions of 150 fields and waits until all of them
// are established.
func BenchmarkEstablish(b *testing.B) {
	const many = 200
	for b.Loop() {
		b.StopTimer()
		s := newServer(b)
		var bodies []resource.Body
		var r *resource.Request
		for i := range many {
			var body resource.Body
			r, body = s.of(large(i, 150))
			bodies = append(bodies, body)
		}
		s.mustCreate(simple("warms", "Warm"))
		s.established("warms.example.com")
		before := heap()
		b.StartTimer()
		start := time.Now()
		for _, body := range bodies {
			if _, err := s.store.Create(context.Background(), r, body); err != nil {
				b.Fatal(err)
			}
		}
		created := time.Since(start)
		for i := range many {
			s.established(fmt.Sprintf("large%ds.example.com", i))
		}
		b.StopTimer()
		b.ReportMetric(float64(created.Milliseconds()), "ms-create")
		b.ReportMetric(float64(heap()-before)/many/1024, "KiB/crd")
		runtime.KeepAlive(bodies)
		s.controller.Close()
		b.StartTimer()
	}
}

func heap() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// BenchmarkLatency measures the time from the creation of one CustomResourceDefinition until it is
// established.
func BenchmarkLatency(b *testing.B) {
	s := newServer(b)
	for i := 0; b.Loop(); i++ {
		s.mustCreate(strings.ReplaceAll(simple("widgets", "Widget"), "example.com", fmt.Sprintf("g%d.example.com", i)))
		name := fmt.Sprintf("widgets.g%d.example.com", i)
		s.wait("established", func() bool { return s.crd(name).is(apiextensionsv1.Established) })
	}
}
