package kapoktest_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/kapoktest"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// BenchmarkStart is a server of a test: until it serves, and until nothing of it is left. heap-MB is what it holds, once its garbage is
// collected, when nothing has been asked of it yet.
func BenchmarkStart(b *testing.B) {
	b.ReportAllocs()
	heap := func() float64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC() // what pools hold goes with the second one
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	kapoktest.StartOne(b)() // makes what a process makes once
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

// BenchmarkTest is a test as there are many in a suite: its own server, a definition, an object, whose status somebody sets, which is waited for. Of
// a hundred tests the processor time is a hundred times that; tests that are parallel share the processors.
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
