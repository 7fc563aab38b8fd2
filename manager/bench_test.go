package manager_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kapok-dev/kapok"
	ctrl "github.com/kapok-dev/kapok/controller"
	"github.com/kapok-dev/kapok/controller/handler"
	"github.com/kapok-dev/kapok/manager"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// BenchmarkReconcile adds 1,000 objects, and waits until workers have reconciled all, with an empty
// Reconciler: the time is that of one object, with queue, logger and metrics.
func BenchmarkReconcile(b *testing.B) {
	for _, workers := range []int{1, 2} {
		b.Run(strconv.Itoa(workers)+"-workers", func(b *testing.B) {
			done := make(chan struct{}, 1000)
			var queue handler.Queue
			begun := make(chan struct{})
			m, err := manager.New(&rest.Config{Host: "127.0.0.1:1"}, manager.Options{Logger: silent()})
			if err != nil {
				b.Fatal(err)
			}
			c, err := ctrl.NewUnmanaged("bench", ctrl.Options{MaxConcurrentReconciles: workers, Logger: silent(), Registerer: m.GetMetricsRegistry(),
				Reconciler: ctrl.Func(func(context.Context, ctrl.Request) (ctrl.Result, error) {
					done <- struct{}{}
					return ctrl.Result{}, nil
				})})
			if err != nil {
				b.Fatal(err)
			}
			if err := c.Watch(ctrl.SourceFunc(func(_ context.Context, q handler.Queue) error { queue = q; close(begun); return nil })); err != nil {
				b.Fatal(err)
			}
			requests := make([]ctrl.Request, 1000)
			for i := range requests {
				requests[i].Namespace, requests[i].Name = "default", "object-"+strconv.Itoa(i)
			}
			ctx, stop := context.WithCancel(b.Context())
			var running sync.WaitGroup
			running.Go(func() { _ = c.Start(ctx) })
			<-begun
			b.ReportAllocs()
			b.ResetTimer()
			for n := 0; n < b.N; n += len(requests) {
				for _, r := range requests {
					queue.Add(r)
				}
				for range requests {
					<-done
				}
			}
			b.StopTimer()
			stop()
			running.Wait()
		})
	}
}

// BenchmarkIdleManager reports the anonymous memory of a process that runs a manager with a
// controller of ConfigMaps and no work.
func BenchmarkIdleManager(b *testing.B) {
	if kubeconfig := os.Getenv("KAPOK_BENCH_KUBECONFIG"); kubeconfig != "" {
		idle(b, kubeconfig)
		return
	}
	server, err := kapok.Start(b.Context(), kapok.Options{Listen: "127.0.0.1:0"})
	if err != nil {
		b.Fatal(err)
	}
	defer server.Stop()
	kubeconfig := filepath.Join(b.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, server.Kubeconfig(), 0o600); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		cmd := exec.Command(os.Args[0], "-test.run=^$", "-test.bench=^BenchmarkIdleManager$", "-test.benchtime=1x")
		cmd.Env = append(os.Environ(), "KAPOK_BENCH_KUBECONFIG="+kubeconfig)
		out, err := cmd.CombinedOutput()
		if err != nil {
			b.Fatalf("%v: %s", err, out)
		}
		_, kb, _ := strings.Cut(string(out), "RssAnon=")
		n, err := strconv.Atoi(strings.Fields(kb)[0])
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(n)/1024, "RssAnon-MB")
	}
}

// idle runs a manager in its own process, and prints its memory.
func idle(b *testing.B, kubeconfig string) {
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		b.Fatal(err)
	}
	m, err := manager.New(cfg, manager.Options{Logger: silent(), LeaderElection: true, LeaderElectionID: "idle", LeaderElectionNamespace: "default",
		HealthProbeBindAddress: "127.0.0.1:0", Metrics: manager.MetricsOptions{BindAddress: "127.0.0.1:0"}})
	if err != nil {
		b.Fatal(err)
	}
	if err := ctrl.NewControllerManagedBy(m).For(&corev1.ConfigMap{}).Complete(
		ctrl.Func(func(context.Context, ctrl.Request) (ctrl.Result, error) { return ctrl.Result{}, nil })); err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(b.Context())
	ended := make(chan error)
	go func() { ended <- m.Start(ctx) }()
	<-m.Elected()
	time.Sleep(10 * time.Second)
	before := anonymous(b)
	runtime.GC()
	debug.FreeOSMemory()
	b.Logf("RssAnon=%d KB, after the collector %d KB", before, anonymous(b))
	stop()
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
}

// anonymous returns the anonymous memory of this process, in KB.
func anonymous(b *testing.B) int {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Skip(err)
	}
	_, rest, _ := bytes.Cut(status, []byte("RssAnon:"))
	kb, err := strconv.Atoi(string(bytes.Fields(rest)[0]))
	if err != nil {
		b.Fatal(err)
	}
	return kb
}
