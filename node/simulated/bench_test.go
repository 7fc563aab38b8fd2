//go:build unix

package simulated_test

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/cache/local"
	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/manager"
	"github.com/kapok-dev/kapok/node/simulated"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
)

// processor returns the processor time of this process.
func processor() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// runNodes starts a server in memory, and nodes that read its state.
func runNodes(b *testing.B, o simulated.Options) (cfg *rest.Config, stop func()) {
	server, err := kapok.Start(b.Context(), kapok.Options{})
	if err != nil {
		b.Fatal(err)
	}
	cfg = server.Config()
	cfg.QPS = -1
	mo := manager.Options{Logger: logr.Discard()}
	mo.Cache.State, mo.Cache.UnsafeSharedEvents = local.Of(cfg), true // as controllers have it
	m, err := manager.New(cfg, mo)
	if err != nil {
		b.Fatal(err)
	}
	if err := o.Add(m); err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = m.Start(ctx) })
	c, err := client.New(cfg, client.Options{})
	if err != nil {
		b.Fatal(err)
	}
	for n := 0; n < o.Nodes; time.Sleep(10 * time.Millisecond) {
		var list corev1.NodeList
		if err := c.List(b.Context(), &list); err != nil {
			b.Fatal(err)
		}
		n = len(list.Items)
	}
	return cfg, func() {
		cancel()
		running.Wait()
		server.Stop()
	}
}

// BenchmarkPods measures the time from the creation of pods, by 8 clients, until all are running,
// for server, clients and nodes together. In the bare ones no node runs them, and creation is
// measured.
func BenchmarkPods(b *testing.B) {
	for _, n := range []int{2000, 20000, 100000} {
		b.Run(fmt.Sprintf("pods=%d", n), func(b *testing.B) { benchmarkPods(b, n, "node-") })
		b.Run(fmt.Sprintf("pods=%d/bare", n), func(b *testing.B) { benchmarkPods(b, n, "none-") })
	}
}

func benchmarkPods(b *testing.B, n int, prefix string) {
	for b.Loop() {
		b.StopTimer()
		nodes := max(10, n/100)
		cfg, stop := runNodes(b, simulated.Options{Nodes: nodes})
		c, err := client.NewWithWatch(cfg, client.Options{})
		if err != nil {
			b.Fatal(err)
		}
		used, begin := processor(), time.Now()
		b.StartTimer()
		createPods(b, c, n, prefix, nodes)
		created := time.Since(begin)
		if prefix == "node-" {
			waitRunning(b, c, n)
		}
		b.StopTimer()
		b.ReportMetric(float64(n)/time.Since(begin).Seconds(), "pods/s")
		b.ReportMetric(created.Seconds(), "s-to-create")
		b.ReportMetric(float64((processor()-used).Microseconds())/float64(n), "us-cpu/pod")
		stop()
		b.StartTimer()
	}
}

func createPods(b *testing.B, c client.Client, n int, prefix string, nodes int) {
	var clients sync.WaitGroup
	for k := range 8 {
		clients.Go(func() {
			for i := k; i < n; i += 8 {
				if err := c.Create(b.Context(), newPod(fmt.Sprint("p", i), fmt.Sprint(prefix, i%nodes)), client.Stale); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	clients.Wait()
}

// waitRunning waits until no pod is pending.
func waitRunning(b *testing.B, c client.Client, n int) {
	for left := n; left > 0; time.Sleep(50 * time.Millisecond) {
		var list corev1.PodList
		if err := c.List(b.Context(), &list, client.MatchingFields{"status.phase": "Pending"}, client.Limit(1)); err != nil {
			b.Fatal(err)
		}
		left = len(list.Items)
	}
}

// BenchmarkHeartbeats measures the processor time that the heartbeats of nodes take, for server and
// nodes together.
func BenchmarkHeartbeats(b *testing.B) {
	for _, n := range []int{100, 1000} {
		b.Run(fmt.Sprintf("nodes=%d", n), func(b *testing.B) {
			_, stop := runNodes(b, simulated.Options{Nodes: n})
			defer stop()
			time.Sleep(12 * time.Second)
			used, begin := processor(), time.Now()
			for b.Loop() {
				time.Sleep(10 * time.Second)
			}
			b.ReportMetric(100*float64(processor()-used)/float64(time.Since(begin)), "%core")
			b.ReportMetric(float64((processor()-used).Microseconds())/(float64(n)*time.Since(begin).Seconds()/10), "us-cpu/renewal")
		})
	}
}
