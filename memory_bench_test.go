//go:build linux

package kapok_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/discovery"
)

// quiet is how long a process is left alone before its memory is read.
const quiet = 10 * time.Second

// BenchmarkMemory starts a process, has it do something, leaves it alone for a
// while and reads its memory. The time of an operation means nothing.
func BenchmarkMemory(b *testing.B) {
	for _, tc := range []struct {
		name string
		work func(b *testing.B, p *process)
	}{
		{"idle", func(*testing.B, *process) {}},
		{"after=discovery", func(b *testing.B, p *process) { discover(b, p) }},
		{"after=openapi", func(b *testing.B, p *process) {
			c := discover(b, p)
			if _, err := c.OpenAPISchema(); err != nil {
				b.Fatal(err)
			}
			paths, err := c.OpenAPIV3().Paths()
			if err != nil {
				b.Fatal(err)
			}
			for _, document := range paths {
				if _, err := document.Schema(asJSON); err != nil {
					b.Fatal(err)
				}
			}
		}},
		{"after=5000-objects-created-patched-applied", func(b *testing.B, p *process) {
			const objects = 5000
			t := newTarget(b, p.config, p.cpu)
			t.fill(b, objects)
			for i, patch := range []string{asMerge, asApply} {
				load(b, 8, objects, func(n int) error { return t.patch(patch, n, 2+i) })
			}
		}},
	} {
		b.Run(tc.name, func(b *testing.B) {
			for range b.N {
				p := launch(b, b.TempDir(), true)
				tc.work(b, p)
				b.ReportMetric(p.memory("RssAnon"), "RssAnon-MB-at-once")
				<-time.After(quiet)
				b.ReportMetric(p.memory("RssAnon"), "RssAnon-MB")
				b.ReportMetric(p.memory("RssFile"), "RssFile-MB")
				p.stop()
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkManyObjects is the memory of a process that holds many objects and the
// history of how they came, and of the next process on the same directory, which
// reads them back.
func BenchmarkManyObjects(b *testing.B) {
	const objects = 100_000
	b.Run(fmt.Sprintf("objects=%d", objects), func(b *testing.B) {
		for range b.N {
			dir := b.TempDir()
			p := launch(b, dir, true)
			t := newTarget(b, p.config, p.cpu)
			begin := time.Now()
			t.fill(b, objects)
			b.ReportMetric(objects/time.Since(begin).Seconds(), "creates/s")
			b.ReportMetric(p.memory("RssAnon"), "written-MB-at-once")
			b.ReportMetric(p.memory("VmHWM"), "written-peak-MB") // with the binary's pages
			<-time.After(quiet)
			b.ReportMetric(p.memory("RssAnon"), "written-MB")
			p.stop()
			p = launch(b, dir, true)
			b.ReportMetric(milliseconds(p.ready), "restart-ms")
			b.ReportMetric(p.memory("RssAnon"), "restarted-MB-at-once")
			<-time.After(quiet)
			b.ReportMetric(p.memory("RssAnon"), "restarted-MB")
			p.stop()
		}
		b.ReportMetric(0, "ns/op")
	})
}

// discover reads what kubectl reads before its first request.
func discover(b *testing.B, p *process) *discovery.DiscoveryClient {
	c, err := discovery.NewDiscoveryClientForConfig(p.config)
	if err != nil {
		b.Fatal(err)
	}
	if _, _, err := c.ServerGroupsAndResources(); err != nil {
		b.Fatal(err)
	}
	return c
}

// BenchmarkDefinitions creates definitions of custom resources: how long until
// all of them are served, and what each costs.
func BenchmarkDefinitions(b *testing.B) {
	const many, fields = 200, 150
	b.Run(fmt.Sprintf("crds=%d/fields=%d", many, fields), func(b *testing.B) {
		var took, slowest time.Duration
		for range b.N {
			p := launch(b, b.TempDir(), true)
			t := newTarget(b, p.config, p.cpu)
			var bodies []string
			for i := range many {
				bodies = append(bodies, crd(fmt.Sprintf("gadget%d", i), fields, ""))
			}
			path := func(i int) string { return strings.Replace(widgetPath, "widgets", fmt.Sprintf("gadget%ds", i), 1) }
			anon, cpu, begin := p.memory("RssAnon"), p.cpu(), time.Now()
			load(b, 8, many, func(i int) error { return t.do("POST", crdPath, asJSON, bodies[i]) })
			for i := range many {
				t.await(b, path(i))
			}
			took = time.Since(begin)
			slowest = max(slowest, took)
			b.ReportMetric(milliseconds(p.cpu()-cpu), "cpu-ms")
			<-time.After(quiet)
			b.ReportMetric((p.memory("RssAnon")-anon)*1000/many, "RssAnon-KB/crd")
			load(b, 8, many, func(i int) error {
				return t.do("POST", path(i), asJSON, fmt.Sprintf(
					`{"apiVersion":"bench.example.com/v1","kind":"Gadget%d","metadata":{"name":"first"},"spec":{"field1":"x"}}`, i))
			})
			<-time.After(quiet)
			b.ReportMetric((p.memory("RssAnon")-anon)*1000/many, "RssAnon-KB/used-crd")
			p.stop()
		}
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(milliseconds(took), "served-ms")
	})
}
