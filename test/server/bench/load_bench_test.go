//go:build linux

package bench_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/kapok-dev/kapok"

	"k8s.io/client-go/rest"
)

const (
	crdPath    = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	widgetPath = "/apis/bench.example.com/v1/namespaces/default/widgets"
	asJSON     = "application/json"
	asMerge    = "application/merge-patch+json"
	asApply    = "application/apply-patch+yaml"
)

// widgets is the kind that is written and read: fields of all types, 150 including those of the
// list parts.
func widgets() string {
	return crd("widget", 130, `"replicas":{"type":"integer","minimum":0},"paused":{"type":"boolean","default":false},
		"parts":{"type":"array","items":{"type":"object","required":["name"],"properties":{
			"name":{"type":"string","maxLength":63},"image":{"type":"string"},"args":{"type":"array","items":{"type":"string"}},
			"env":{"type":"array","items":{"type":"object","properties":{"name":{"type":"string"},"value":{"type":"string"}}}},
			"port":{"type":"integer","minimum":1,"maximum":65535}}}},`)
}

// crd returns a definition with n fields of strings, and the given others.
func crd(singular string, n int, more string) string {
	var fields []string
	for i := range n {
		fields = append(fields, fmt.Sprintf(`"field%d":{"type":"string","maxLength":%d,"description":"field %d, and what it is good for"}`, i, 100+i, i))
	}
	return fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"%[1]ss.bench.example.com"},
		"spec":{"group":"bench.example.com","scope":"Namespaced","names":{"plural":"%[1]ss","kind":"%[2]s"},"versions":[{"name":"v1","served":true,"storage":true,
		"subresources":{"status":{}},"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{%[3]s%[4]s}}}}}}]}}`,
		singular, strings.ToUpper(singular[:1])+singular[1:], more, strings.Join(fields, ","))
}

// widget returns an object of 1.5 KB as it is sent. One of fifty has the same label.
func widget(name string, i, replicas int) string {
	var parts []string
	for p := range 3 {
		parts = append(parts, fmt.Sprintf(`{"name":"part-%d","image":"registry.example.com/team/part:%d","args":["--level=%s"],
			"env":[{"name":"REGION","value":"europe-%d"},{"name":"MODE","value":"careful"}],"port":%d}`, p, i, strings.Repeat("x", 120), p, 8000+p))
	}
	var fields []string
	for f := range 8 {
		fields = append(fields, fmt.Sprintf(`"field%d":"a value of some length, number %d"`, f, i))
	}
	return fmt.Sprintf(`{"apiVersion":"bench.example.com/v1","kind":"Widget","metadata":{"name":%q,"labels":{"app":"bench","shade":"blue-%d"}},
		"spec":{"replicas":%d,"parts":[%s],%s}}`, name, i%50, replicas, strings.Join(parts, ","), strings.Join(fields, ","))
}

// A target is a server under load.
type target struct {
	client  *http.Client
	host    string
	cpu     func() time.Duration // processor time used so far; includes that of clients in this process
	clients func() time.Duration // processor time of the clients; nil within this process
	dir     string               // on the disk of the journal; empty if there is none
}

// targets runs a benchmark on a server in this process, and on one in its own process.
func targets(b *testing.B, run func(*testing.B, *target)) {
	for _, store := range []string{"memory", "disk"} {
		b.Run("inside/store="+store, func(b *testing.B) {
			var opts kapok.Options
			if store == "disk" {
				opts.DataDir = b.TempDir()
			}
			s, err := kapok.Start(b.Context(), opts)
			if err != nil {
				b.Fatal(err)
			}
			defer s.Stop()
			t := newTarget(b, s.Config(), ownCPU)
			t.dir = opts.DataDir
			run(b, t)
		})
	}
	b.Run("tls/store=disk", func(b *testing.B) {
		p := launch(b, b.TempDir(), true)
		defer p.stop()
		t := newTarget(b, p.config, p.cpu)
		t.clients, t.dir = ownCPU, b.TempDir()
		run(b, t)
	})
}

// ownCPU returns the processor time that this process has used.
func ownCPU() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// newTarget creates the kind on a server.
func newTarget(b *testing.B, config *rest.Config, cpu func() time.Duration) *target {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		b.Fatal(err)
	}
	t := &target{client: client, host: config.Host, cpu: cpu}
	if err := t.do("POST", crdPath, asJSON, widgets()); err != nil {
		b.Fatal(err)
	}
	t.await(b, widgetPath)
	return t
}

// await waits until a path is served.
func (t *target) await(b *testing.B, path string) {
	deadline := time.Now().Add(time.Minute)
	for tick := time.Tick(time.Millisecond); ; <-tick {
		err := t.do("GET", path, "", "")
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			b.Fatal(err)
		}
	}
}

// do sends a request and reads the response to its end.
func (t *target) do(method, path, contentType, body string) error {
	r, err := http.NewRequest(method, t.host+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", contentType)
	return t.send(r)
}

func (t *target) send(r *http.Request) error {
	resp, err := t.client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode > 299 {
		message, _ := io.ReadAll(io.LimitReader(resp.Body, 1000))
		return fmt.Errorf("%s %s: %s: %s", r.Method, r.URL.Path, resp.Status, message)
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

// load runs n operations in a number of workers, and returns the duration of each.
func load(b *testing.B, workers, n int, op func(i int) error) durations {
	var (
		group sync.WaitGroup
		next  atomic.Int64
		took  = make(durations, n)
	)
	for range workers {
		group.Go(func() {
			// The label with which profiles of one process distinguish the clients and their
			// connections.
			pprof.Do(b.Context(), pprof.Labels("side", "client"), func(context.Context) {
				for {
					i := int(next.Add(1)) - 1
					if i >= n {
						return
					}
					begin := time.Now()
					if err := op(i); err != nil {
						b.Error(err)
						return
					}
					took[i] = time.Since(begin)
				}
			})
		})
	}
	group.Wait()
	if b.Failed() {
		b.FailNow()
	}
	return took
}

// measure runs b.N operations against a server and reports their cost.
func (t *target) measure(b *testing.B, workers int, op func(i int) error) {
	var clients time.Duration
	if t.clients != nil {
		clients = t.clients()
	}
	writes, syncs := t.metric(b, "kapok_journal_entries_total"), t.metric(b, "kapok_journal_syncs_total")
	b.ResetTimer()
	n, cpu := float64(b.N), t.cpu()
	took := load(b, workers, b.N, op)
	b.StopTimer()
	b.ReportMetric(n/b.Elapsed().Seconds(), "ops/s")
	b.ReportMetric(microseconds(t.cpu()-cpu)/n, "cpu-us/op")
	if t.clients != nil {
		b.ReportMetric(microseconds(t.clients()-clients)/n, "client-cpu-us/op")
	}
	if writes = t.metric(b, "kapok_journal_entries_total") - writes; writes > 0 {
		b.ReportMetric(writes/b.Elapsed().Seconds(), "writes/s")
		b.ReportMetric((t.metric(b, "kapok_journal_syncs_total")-syncs)/b.Elapsed().Seconds(), "fsyncs/s")
	}
	b.ReportMetric(microseconds(took.quantile(0.5)), "p50-us")
	b.ReportMetric(microseconds(took.quantile(0.99)), "p99-us")
}

// metric reads a counter of the server; zero if it does not exist.
func (t *target) metric(b *testing.B, name string) float64 {
	resp, err := t.client.Get(t.host + "/metrics")
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		b.Fatal(err)
	}
	_, value, _ := strings.Cut(string(text), "\n"+name+" ")
	value, _, _ = strings.Cut(value, "\n")
	n, _ := strconv.ParseFloat(value, 64)
	return n
}

// fill creates n widgets.
func (t *target) fill(b *testing.B, n int) {
	load(b, 8, n, func(i int) error {
		return t.do("POST", widgetPath, asJSON, widget(fmt.Sprintf("w%05d", i), i, 1))
	})
}

func workers(b *testing.B, run func(b *testing.B, workers int)) {
	for _, n := range []int{1, 16} {
		b.Run(fmt.Sprintf("clients=%d", n), func(b *testing.B) { run(b, n) })
	}
}

// BenchmarkCreate also reports the duration of an fsync at the same time, if there is a disk.
func BenchmarkCreate(b *testing.B) {
	targets(b, func(b *testing.B, t *target) {
		var names atomic.Int64 // continues across runs, so that no name is used twice
		for _, workers := range []int{1, 16, 256} {
			b.Run(fmt.Sprintf("clients=%d", workers), func(b *testing.B) {
				var syncs durations
				if t.dir != "" {
					syncs = fsyncs(b, t.dir, 200)
				}
				t.measure(b, workers, func(i int) error {
					return t.do("POST", widgetPath, asJSON, widget(fmt.Sprintf("w%08d", names.Add(1)), i, 1))
				})
				if t.dir != "" {
					syncs = append(syncs, fsyncs(b, t.dir, 200)...)
					b.ReportMetric(microseconds(syncs.quantile(0.5)), "fsync-p50-us")
				}
			})
		}
	})
}

// fsyncs appends 2 KB to a file and syncs it, n times.
func fsyncs(b *testing.B, dir string, n int) durations {
	f, err := os.CreateTemp(dir, "fsync-")
	if err != nil {
		b.Fatal(err)
	}
	defer os.Remove(f.Name())
	defer f.Close()
	took, data := make(durations, n), make([]byte, 2<<10)
	for i := range took {
		begin := time.Now()
		if _, err := f.Write(data); err != nil {
			b.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
		took[i] = time.Since(begin)
	}
	return took
}

func BenchmarkGet(b *testing.B) {
	targets(b, func(b *testing.B, t *target) {
		t.fill(b, 100)
		workers(b, func(b *testing.B, workers int) {
			t.measure(b, workers, func(i int) error {
				return t.do("GET", fmt.Sprintf("%s/w%05d", widgetPath, i%100), "", "")
			})
		})
	})
}

// BenchmarkPatch changes a field, by merge patch and by server-side apply of the whole object.
func BenchmarkPatch(b *testing.B) {
	targets(b, func(b *testing.B, t *target) {
		const objects = 256
		t.fill(b, objects)
		var changes atomic.Int64
		for _, patch := range []string{asMerge, asApply} {
			name := strings.TrimPrefix(patch, "application/")
			b.Run(name, func(b *testing.B) {
				workers(b, func(b *testing.B, workers int) {
					t.measure(b, workers, func(i int) error {
						return t.patch(patch, i%objects, int(changes.Add(1)))
					})
				})
			})
		}
	})
}

// patch changes the replicas of a widget.
func (t *target) patch(contentType string, i, replicas int) error {
	name := fmt.Sprintf("w%05d", i)
	if contentType == asMerge {
		return t.do("PATCH", widgetPath+"/"+name, asMerge, fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas))
	}
	return t.do("PATCH", widgetPath+"/"+name+"?fieldManager=bench&force=true", asApply, widget(name, i, replicas))
}

// BenchmarkList reads lists as client-go does by default, compressed, and uncompressed.
func BenchmarkList(b *testing.B) {
	const objects = 5000
	targets(b, func(b *testing.B, t *target) {
		t.fill(b, objects)
		for _, tc := range []struct{ name, query string }{
			{"all", ""},
			{"page=500", "?limit=500"},
			{"label=100", "?labelSelector=shade%3Dblue-7"},
		} {
			for _, encoding := range []string{"gzip", "identity"} {
				b.Run(fmt.Sprintf("objects=%d/%s/%s", objects, tc.name, encoding), func(b *testing.B) {
					t.measure(b, 1, func(int) error {
						r, err := http.NewRequest("GET", t.host+widgetPath+tc.query, nil)
						if err != nil {
							return err
						}
						// An explicit header also keeps the client from decompressing.
						r.Header.Set("Accept-Encoding", encoding)
						return t.send(r)
					})
				})
			}
		}
	})
}
