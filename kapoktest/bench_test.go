package kapoktest_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/kapoktest"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// BenchmarkStart measures the server of a test: until it serves, and until it is closed. heap-MB is
// the memory that it holds before the first request, after a garbage collection.
func BenchmarkStart(b *testing.B) {
	b.ReportAllocs()
	heap := func() float64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC() // the second collection frees the contents of pools
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	kapoktest.StartOne(b)() // creates the shared values of the process
	before := heap()
	stop := kapoktest.StartOne(b)
	held := heap() - before
	stop()
	var starts, stops time.Duration
	for b.Loop() {
		begin := time.Now()
		stop := kapoktest.StartOne(b)
		started := time.Now()
		stop()
		starts, stops = starts+started.Sub(begin), stops+time.Since(started)
	}
	b.ReportMetric(held/1e6, "heap-MB")
	b.ReportMetric(starts.Seconds()*1e3/float64(b.N), "start-ms")
	b.ReportMetric(stops.Seconds()*1e3/float64(b.N), "stop-ms")
}

// BenchmarkTest runs a typical test of a suite: its own server, a definition, and an object whose
// status the test waits for. A hundred tests take a hundred times the processor time; parallel
// tests share the processors.
func BenchmarkTest(b *testing.B) {
	for name, each := range map[string]func(*testing.B, func()){
		"alone": func(b *testing.B, test func()) {
			for b.Loop() {
				test()
			}
		},
		"parallel": func(b *testing.B, test func()) {
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					test()
				}
			})
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			each(b, func() {
				env, stop := kapoktest.StartEnv(b, kapoktest.CRDs("testdata/crd"))
				defer stop()
				w := widget("a")
				env.Create(w)
				done := make(chan struct{})
				go func() {
					defer close(done)
					other := widget("a")
					env.UpdateStatus(other, func() { other.Object["status"] = map[string]any{"ready": true} })
				}()
				env.WaitFor(b.Context(), w, func() bool {
					ready, _, _ := unstructured.NestedBool(w.Object, "status", "ready")
					return ready
				})
				<-done
			})
		})
	}
}
