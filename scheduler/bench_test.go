//go:build unix

package scheduler_test

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/scheduler"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// BenchmarkScheduler binds pods that wait already, on a server with a data directory in the same
// process: from the start of the scheduler, with the reading of all nodes and pods, until all pods
// are bound. cpu-us/pod is the processor time of the process, which includes that of the server.
func BenchmarkScheduler(b *testing.B) {
	app := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	for _, size := range []struct{ nodes, pods int }{{500, 1000}, {5000, 10000}} {
		for kind, edit := range map[string]func(*corev1.Pod){
			"plain": func(*corev1.Pod) {},
			"spread": func(p *corev1.Pod) {
				p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{
					{MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: app},
				}
			},
			"apart": func(p *corev1.Pod) {
				p.Labels["part"] = p.Name[len(p.Name)-1:]
				p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
					{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"part": p.Labels["part"]}}, TopologyKey: corev1.LabelHostname},
				}}}
			},
		} {
			b.Run(fmt.Sprintf("%s/nodes=%d/pods=%d", kind, size.nodes, size.pods), func(b *testing.B) {
				for b.Loop() {
					benchmark(b, size.nodes, size.pods, edit)
				}
			})
		}
	}
}

func benchmark(b *testing.B, nodes, pods int, edit func(*corev1.Pod)) {
	b.StopTimer()
	server, c := startServer(b, kapok.Options{DataDir: b.TempDir()})
	defer server.Stop()
	createNodes(b, c, nodes)
	inParallel(b, pods, func(i int) error {
		p := pod(fmt.Sprint("p", i), "100m")
		p.Labels = map[string]string{"app": "web"}
		edit(p)
		return c.Create(b.Context(), p)
	})
	began, before := time.Now(), processor(b)
	b.StartTimer()
	stop := runScheduler(b, server.Config())
	for waiting := true; waiting; time.Sleep(100 * time.Millisecond) { // each poll is a list of the server
		var list corev1.PodList
		if err := c.List(b.Context(), &list, client.MatchingFields{"spec.nodeName": ""}, client.Limit(1)); err != nil {
			b.Fatal(err)
		}
		waiting = len(list.Items) > 0
	}
	b.StopTimer()
	b.ReportMetric(float64(pods)/time.Since(began).Seconds(), "pods/s")
	b.ReportMetric(float64((processor(b)-before).Microseconds())/float64(pods), "cpu-us/pod")
	stop()
	b.StartTimer()
}

func startServer(b *testing.B, o kapok.Options) (*kapok.Server, client.Client) {
	server, err := kapok.Start(b.Context(), o)
	if err != nil {
		b.Fatal(err)
	}
	c, err := client.New(server.Config(), client.Options{})
	if err != nil {
		server.Stop()
		b.Fatal(err)
	}
	return server, c
}

func createNodes(b *testing.B, c client.Client, number int) {
	inParallel(b, number, func(i int) error {
		n := node(fmt.Sprint("n", i), "32")
		n.Labels[corev1.LabelTopologyZone] = fmt.Sprint("z", i%3)
		status := n.Status
		if err := c.Create(b.Context(), n); err != nil {
			return err
		}
		n.Spec.Taints = nil // as the controller of nodes does when they are ready
		if err := c.Update(b.Context(), n); err != nil {
			return err
		}
		n.Status = status
		return c.Status().Update(b.Context(), n)
	})
}

// BenchmarkMemory reports the memory that the scheduler takes for nodes with 30 pods each, beyond
// the state of the server in the same process: when it has read them, and (MB-later) after changes.
// The latter includes the new revisions, which the server keeps for watches.
func BenchmarkMemory(b *testing.B) {
	for _, nodes := range []int{100, 5000} {
		b.Run(fmt.Sprintf("nodes=%d/pods=%d", nodes, nodes*30), func(b *testing.B) {
			server, c := startServer(b, kapok.Options{})
			defer server.Stop()
			createNodes(b, c, nodes)
			inParallel(b, nodes*30, func(i int) error {
				p := pod(fmt.Sprint("p", i), "100m")
				p.Labels = map[string]string{"app": "web"}
				p.Spec.NodeName = fmt.Sprint("n", i/30)
				return c.Create(b.Context(), p)
			})
			before := live()
			stop := runScheduler(b, server.Config())
			bindOne(b, c, "first")
			b.ReportMetric(float64(live()-before)/1e6, "MB")
			inParallel(b, nodes*2, func(i int) error { // a heartbeat of each node, and a change of as many pods
				var o client.Object = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", i)}}
				if i >= nodes {
					o = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("p", i)}}
				}
				return c.Status().Patch(b.Context(), o, client.RawPatch(types.MergePatchType, []byte(`{"status": {"conditions": [{"type": "Ready", "status": "True"}]}}`)))
			})
			bindOne(b, c, "last")
			b.ReportMetric(float64(live()-before)/1e6, "MB-later")
			b.ReportMetric(0, "ns/op")
			stop()
		})
	}
}

// bindOne creates a pod, and returns when it has a node: the scheduler has seen what was before it.
func bindOne(b *testing.B, c client.Client, name string) {
	if err := c.Create(b.Context(), pod(name, "100m")); err != nil {
		b.Fatal(err)
	}
	for waiting := true; waiting; time.Sleep(100 * time.Millisecond) {
		var p corev1.Pod
		if err := c.Get(b.Context(), client.ObjectKey{Namespace: "default", Name: name}, &p); err != nil {
			b.Fatal(err)
		}
		waiting = p.Spec.NodeName == ""
	}
}

// live returns the bytes of reachable objects.
func live() int64 {
	runtime.GC()
	runtime.GC() // what the first one has found unreachable only by a finalizer
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// runScheduler runs the scheduler until stop is called.
func runScheduler(b *testing.B, config *rest.Config) (stop func()) {
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- scheduler.Options{}.Run(ctx, config, slog.New(slog.DiscardHandler), nil, false)
	}()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			b.Fatal(err)
		}
	}
}

// inParallel calls do n times.
func inParallel(b *testing.B, n int, do func(i int) error) {
	var group sync.WaitGroup
	const workers = 16
	for w := range workers {
		group.Go(func() {
			for i := w; i < n; i += workers {
				if err := do(i); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	if b.Failed() {
		b.FailNow()
	}
}

// processor returns the processor time of the process.
func processor(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
