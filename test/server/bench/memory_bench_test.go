//go:build linux

package bench_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
)

// quiet is the idle time before the memory of a process is read.
const quiet = 10 * time.Second

// BenchmarkMemory starts a process, runs operations, waits while it is idle, and reads its memory.
// The time of an operation means nothing.
func BenchmarkMemory(b *testing.B) {
	for _, tc := range []struct {
		name string
		work func(b *testing.B, p *process)
	}{
		{"idle", func(*testing.B, *process) {}},
		{"after=discovery", func(b *testing.B, p *process) { discover(b, p) }},
		{"after=openapi", readDocuments},
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

// BenchmarkManyObjects reports the memory of a process with many objects and their history, and of
// the next process on the same directory, which reads them back.
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
			b.ReportMetric(p.memory("VmHWM"), "written-peak-MB") // includes the pages of the binary
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

// readDocuments reads all discovery and OpenAPI documents, that of version 2 in the form that
// kubectl requests.
func readDocuments(b *testing.B, p *process) {
	discover(b, p)
	client, err := rest.HTTPClientFor(p.config)
	if err != nil {
		b.Fatal(err)
	}
	read := func(path, accept string) []byte {
		r, err := http.NewRequest("GET", p.config.Host+path, nil)
		if err != nil {
			b.Fatal(err)
		}
		r.Header.Set("Accept", accept)
		resp, err := client.Do(r)
		if err != nil {
			b.Fatal(err)
		}
		defer resp.Body.Close()
		if path != "/openapi/v3" {
			_, err = io.Copy(io.Discard, resp.Body)
		}
		root, err2 := io.ReadAll(resp.Body)
		if err = errors.Join(err, err2); err != nil || resp.StatusCode != http.StatusOK {
			b.Fatal(path, resp.Status, err)
		}
		return root
	}
	var root struct{ Paths map[string]any }
	if err := json.Unmarshal(read("/openapi/v3", asJSON), &root); err != nil {
		b.Fatal(err)
	}
	for name := range root.Paths {
		read("/openapi/v3/"+name, asJSON)
	}
	read("/openapi/v2", "application/com.github.proto-openapi.spec.v2@v1.0+protobuf")
}

// BenchmarkDefinitions creates CustomResourceDefinitions: it reports the time until all of them are
// served, and the cost of each.
func BenchmarkDefinitions(b *testing.B) {
	const fields = 150
	for _, many := range []int{200, 5000} {
		b.Run(fmt.Sprintf("crds=%d/fields=%d", many, fields), func(b *testing.B) {
			for range b.N {
				definitions(b, many, fields)
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// gadget returns the definition of the i-th of many kinds, fifty to a group, and the path of its
// objects.
func gadget(i, fields int) (definition, path string) {
	const group = "bench.example.com"
	own := fmt.Sprintf("g%d.%s", i/50, group)
	definition = strings.ReplaceAll(crd(fmt.Sprintf("gadget%d", i), fields, ""), group, own)
	return definition, fmt.Sprintf("/apis/%s/v1/namespaces/default/gadget%ds", own, i)
}

func definitions(b *testing.B, many, fields int) {
	dir := b.TempDir()
	p := launch(b, dir, true)
	t := newTarget(b, p.config, p.cpu)
	bodies, paths := make([]string, many), make([]string, many)
	for i := range many {
		bodies[i], paths[i] = gadget(i, fields)
	}
	anon, cpu, begin := p.memory("RssAnon"), p.cpu(), time.Now()
	each := func() float64 { return (p.memory("RssAnon") - anon) * 1000 / float64(many) }
	// The last tenth must not cost more than the first.
	tenth, used := many/10, make([]time.Duration, 0, 10)
	for i := 0; i < many; i += tenth {
		before := p.cpu()
		load(b, 8, tenth, func(j int) error { return t.do("POST", crdPath, asJSON, bodies[i+j]) })
		used = append(used, p.cpu()-before)
	}
	for i := range many {
		t.await(b, paths[i])
	}
	b.ReportMetric(milliseconds(time.Since(begin)), "served-ms")
	b.ReportMetric(milliseconds(p.cpu()-cpu), "cpu-ms")
	b.ReportMetric(milliseconds(used[0])/float64(tenth), "first-cpu-ms/crd")
	b.ReportMetric(milliseconds(used[len(used)-1])/float64(tenth), "last-cpu-ms/crd")
	b.ReportMetric(p.memory("RssAnon"), "RssAnon-MB-at-once")
	<-time.After(quiet)
	b.ReportMetric(p.memory("RssAnon"), "RssAnon-MB")
	b.ReportMetric(each(), "RssAnon-KB/crd")
	if many <= 200 {
		load(b, 8, many, func(i int) error {
			return t.do("POST", paths[i], asJSON, fmt.Sprintf(
				`{"apiVersion":"g%d.bench.example.com/v1","kind":"Gadget%d","metadata":{"name":"first"},"spec":{"field1":"x"}}`, i/50, i))
		})
		<-time.After(quiet)
		b.ReportMetric(each(), "RssAnon-KB/used-crd")
	}
	begin, cpu = time.Now(), p.cpu()
	readDocuments(b, p)
	b.ReportMetric(milliseconds(time.Since(begin)), "documents-ms")
	b.ReportMetric(milliseconds(p.cpu()-cpu), "documents-cpu-ms")
	b.ReportMetric(p.memory("VmHWM"), "documents-peak-MB") // includes the pages of the binary
	<-time.After(quiet)
	b.ReportMetric(p.memory("RssAnon"), "RssAnon-MB-after-documents")
	p.stop()

	p = launch(b, dir, true)
	defer p.stop()
	b.ReportMetric(milliseconds(p.ready), "restart-ms")
	client, err := rest.HTTPClientFor(p.config)
	if err != nil {
		b.Fatal(err)
	}
	t = &target{client: client, host: p.config.Host, cpu: p.cpu}
	if err := t.do("GET", paths[many-1], "", ""); err != nil {
		b.Error("not served as soon as the server is ready:", err)
	}
	<-time.After(quiet)
	b.ReportMetric(p.memory("RssAnon"), "restarted-MB")
}
