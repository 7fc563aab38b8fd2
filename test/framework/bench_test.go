package framework

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/cache"
	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controller"
	"github.com/kapok-dev/kapok/manager"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	theirs "sigs.k8s.io/controller-runtime"
	theircache "sigs.k8s.io/controller-runtime/pkg/cache"
	theirclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

var pods = flag.Int("pods", 2000, "pods in the benchmarks")

const app = "app" // a label that 100 pods share, and an index of it

var filled = sync.OnceValues(func() (*rest.Config, error) {
	s, err := kapok.Start(context.Background(), kapok.Options{})
	if err != nil {
		return nil, err
	}
	c, err := client.New(s.Config(), client.Options{})
	if err != nil {
		return nil, err
	}
	for i := range *pods {
		if err := c.Create(context.Background(), pod(i)); err != nil {
			return nil, err
		}
	}
	// So that the server has encoded each pod once, and nothing of that is measured.
	return s.Config(), c.List(context.Background(), &corev1.PodList{})
})

// pod is a pod with a name, an owner, and one container.
func pod(i int) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name(i), Labels: map[string]string{app: fmt.Sprint("web-", i/100), "tier": "front"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Set", Name: fmt.Sprint("web-", i/100), UID: "1"}},
			Annotations:     map[string]string{"example.com/number": fmt.Sprint(i)}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "registry.example.com/web:v1.4.2",
			Ports: []corev1.ContainerPort{{ContainerPort: 8080}}, Env: []corev1.EnvVar{{Name: "NUMBER", Value: fmt.Sprint(i)}}}}},
	}
}

func name(i int) string { return fmt.Sprintf("web-%06d", i) }

func byApp(labels map[string]string) []string { return []string{labels[app]} }

// BenchmarkCache reads pods from the caches of both frameworks, as reconcilers do, and reports the
// heap size of a pod.
func BenchmarkCache(b *testing.B) {
	cfg, err := filled()
	if err != nil {
		b.Fatal(err)
	}
	b.Run("kapok", func(b *testing.B) {
		c, err := cache.New(cfg, cache.Options{})
		if err != nil {
			b.Fatal(err)
		}
		measure(b, side{
			start: c.Start,
			sync: func(ctx context.Context) error {
				if err := c.IndexField(ctx, &corev1.Pod{}, app, func(o client.Object) []string { return byApp(o.GetLabels()) }); err != nil {
					return err
				}
				if !c.WaitForCacheSync(ctx) {
					return ctx.Err()
				}
				return nil
			},
			get: func(ctx context.Context, i int) error {
				return c.Get(ctx, client.Key("default", name(i)), &corev1.Pod{})
			},
			list: func(ctx context.Context, of string) (int, error) {
				var list corev1.PodList
				err := c.List(ctx, &list, client.InNamespace("default"), client.MatchingFields{app: of})
				return len(list.Items), err
			},
		})
	})
	b.Run("controller-runtime", func(b *testing.B) {
		c, err := theircache.New(cfg, theircache.Options{})
		if err != nil {
			b.Fatal(err)
		}
		measure(b, side{
			start: c.Start,
			sync: func(ctx context.Context) error {
				if err := c.IndexField(ctx, &corev1.Pod{}, app, func(o theirclient.Object) []string { return byApp(o.GetLabels()) }); err != nil {
					return err
				}
				if !c.WaitForCacheSync(ctx) {
					return ctx.Err()
				}
				return nil
			},
			get: func(ctx context.Context, i int) error {
				return c.Get(ctx, theirclient.ObjectKey{Namespace: "default", Name: name(i)}, &corev1.Pod{})
			},
			list: func(ctx context.Context, of string) (int, error) {
				var list corev1.PodList
				err := c.List(ctx, &list, theirclient.InNamespace("default"), theirclient.MatchingFields{app: of})
				return len(list.Items), err
			},
		})
	})
}

// A side is the cache of a framework.
type side struct {
	start func(context.Context) error
	sync  func(context.Context) error
	get   func(context.Context, int) error
	list  func(context.Context, string) (int, error)
}

func measure(b *testing.B, s side) {
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan struct{})
	defer func() { cancel(); <-ended }()
	before := heap()
	go func() { defer close(ended); _ = s.start(ctx) }()
	if err := s.sync(ctx); err != nil {
		b.Fatal(err)
	}
	perPod := float64(heap()-before) / float64(*pods)
	b.Run("get", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if err := s.get(ctx, i%*pods); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(perPod, "heap-B/pod")
	})
	b.Run("list100", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if n, err := s.list(ctx, fmt.Sprint("web-", i%(*pods/100))); err != nil || n != 100 {
				b.Fatal(n, err)
			}
		}
	})
}

func heap() int64 {
	for range 3 { // pools and finalizers take more than one
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// BenchmarkStart is a manager from its start until its controller, which reads each pod from the
// cache, has seen all of them.
func BenchmarkStart(b *testing.B) {
	cfg, err := filled()
	if err != nil {
		b.Fatal(err)
	}
	// until runs a manager until as many reconciles as there are pods have been counted.
	until := func(b *testing.B, start func(context.Context) error, done <-chan struct{}) {
		ctx, cancel := context.WithCancel(b.Context())
		ended := make(chan error, 1)
		go func() { ended <- start(ctx) }()
		<-done
		cancel()
		if err := <-ended; err != nil {
			b.Fatal(err)
		}
	}
	counter := func() (count func(), done chan struct{}) {
		var n atomic.Int64
		done = make(chan struct{})
		return func() {
			if n.Add(1) == int64(*pods) {
				close(done)
			}
		}, done
	}
	b.Run("kapok", func(b *testing.B) {
		for b.Loop() {
			m, err := manager.New(cfg, manager.Options{Logger: logr.FromSlogHandler(slog.DiscardHandler)})
			if err != nil {
				b.Fatal(err)
			}
			count, done := counter()
			c := m.GetClient()
			err = controller.NewControllerManagedBy(m).For(&corev1.Pod{}).Complete(controller.Func(func(ctx context.Context, r controller.Request) (controller.Result, error) {
				count()
				return controller.Result{}, c.Get(ctx, r.NamespacedName, &corev1.Pod{})
			}))
			if err != nil {
				b.Fatal(err)
			}
			until(b, m.Start, done)
		}
		b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/float64(*pods), "us/pod")
	})
	b.Run("controller-runtime", func(b *testing.B) {
		for b.Loop() {
			m, err := theirs.NewManager(cfg, theirs.Options{Metrics: server.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: new(true)}})
			if err != nil {
				b.Fatal(err)
			}
			count, done := counter()
			c := m.GetClient()
			err = theirs.NewControllerManagedBy(m).For(&corev1.Pod{}).Complete(reconcile.Func(func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
				count()
				return reconcile.Result{}, c.Get(ctx, r.NamespacedName, &corev1.Pod{})
			}))
			if err != nil {
				b.Fatal(err)
			}
			until(b, m.Start, done)
		}
		b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/float64(*pods), "us/pod")
	})
}
