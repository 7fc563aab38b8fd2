package kapoktest_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/cache"
	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/kapoktest"
	"github.com/kapok-dev/kapok/test/seeds"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
)

// TestInformersConverge checks that, whatever faults occurred, informers and their handlers
// converge to the server's state once faults have ended.
func TestInformersConverge(t *testing.T) {
	runs := 6
	if testing.Short() {
		runs = 2
	}
	first := seeds.Of(t)
	for i := range runs {
		seed := first + uint64(i)
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) { converge(t, env, seed) }, kapoktest.WithFaults(seed, kapoktest.Faults{
				Conflict: 0.05, ServerError: 0.05, TooManyRequests: 0.05, Lost: 0.05, Unavailable: 0.05, CutWatch: 0.1,
				DelayWatch: 0.1, MaxDelay: 20 * time.Second, Duplicate: 0.5, Forget: 0.1,
				StaleList: 0.5, StaleGet: 0.5, MaxStale: time.Minute, Restart: 0.02, MaxOutage: 20 * time.Second,
			}))
		})
	}
}

func converge(t *testing.T, env *kapoktest.Env, seed uint64) {
	config := func(name string) *rest.Config {
		c := env.Config()
		c.UserAgent = name
		return c
	}
	views := map[string]func() map[string]string{}
	for _, streams := range []bool{true, false} {
		name := fmt.Sprintf("informer, streaming lists %t", streams)
		views[name], views["handler of "+name] = clientGoViews(t, env, config(name), streams)
	}
	views["cache"], views["handler of the cache"] = cacheViews(t, env, config("cache"))

	dice := rand.New(rand.NewPCG(seed, 0))
	cms := clientOf(t, config("writer")).CoreV1().ConfigMaps("default")
	for range 150 { // errors are faults
		name := fmt.Sprint("cm-", dice.IntN(10))
		switch cm, err := cms.Get(t.Context(), name, metav1.GetOptions{ResourceVersion: "0"}); {
		case err != nil:
			_, _ = cms.Create(t.Context(), configMap(name), metav1.CreateOptions{})
		case dice.IntN(3) == 0:
			_ = cms.Delete(t.Context(), name, metav1.DeleteOptions{})
		default:
			cm.Data = map[string]string{"n": fmt.Sprint(dice.Int())}
			_, _ = cms.Update(t.Context(), cm, metav1.UpdateOptions{})
		}
		time.Sleep(time.Duration(dice.ExpFloat64() * float64(3*time.Second)))
	}
	env.EndFaults()
	time.Sleep(3 * time.Minute) // delayed events, and the longest backoff

	list := &corev1.ConfigMapList{}
	if err := env.Client().List(t.Context(), list, client.InNamespace("default")); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for _, cm := range list.Items {
		want[cm.Name] = cm.ResourceVersion
	}
	for name, view := range views {
		if got := view(); !maps.Equal(got, want) {
			t.Errorf("the %s has %v, the server %v", name, got, want)
		}
	}
	if faults := env.Faults(); len(faults) < 50 {
		t.Errorf("only %d faults", len(faults))
	}
}

// heard is the state that the events of handlers add up to.
type heard struct {
	mu   sync.Mutex
	view map[string]string
}

func (h *heard) set(obj metav1.Object) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.view == nil {
		h.view = map[string]string{}
	}
	h.view[obj.GetName()] = obj.GetResourceVersion()
}

func (h *heard) delete(obj metav1.Object) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.view, obj.GetName())
}

func (h *heard) get() map[string]string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.view)
}

func (h *heard) OnAdd(obj client.Object, _ bool)    { h.set(obj) }
func (h *heard) OnUpdate(_, obj client.Object)      { h.set(obj) }
func (h *heard) OnDelete(obj client.Object, _ bool) { h.delete(obj) }

// clientGoViews returns the store of a client-go informer, and the state of its handlers.
func clientGoViews(t *testing.T, env *kapoktest.Env, config *rest.Config, streams bool) (stored, told func() map[string]string) {
	cms := kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps("default")
	lw := toolscache.ListerWatcher(&toolscache.ListWatch{
		ListWithContextFunc:  func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return cms.List(ctx, o) },
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) { return cms.Watch(ctx, o) },
	})
	if !streams {
		lw = unstreamed{lw}
	}
	informer := toolscache.NewSharedIndexInformer(lw, &corev1.ConfigMap{}, 0, toolscache.Indexers{})
	var h heard
	if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { h.set(obj.(metav1.Object)) },
		UpdateFunc: func(_, obj any) { h.set(obj.(metav1.Object)) },
		DeleteFunc: func(obj any) {
			if last, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
				obj = last.Obj
			}
			h.delete(obj.(metav1.Object))
		},
	}); err != nil {
		t.Fatal(err)
	}
	env.Go(func(ctx context.Context) error {
		informer.RunWithContext(ctx)
		return nil
	})
	return func() map[string]string {
		view := map[string]string{}
		for _, obj := range informer.GetStore().List() {
			m, err := meta.Accessor(obj)
			if err != nil {
				t.Fatal(err)
			}
			view[m.GetName()] = m.GetResourceVersion()
		}
		return view
	}, h.get
}

// unstreamed makes informers read lists by list requests, as before Kubernetes had streaming lists.
type unstreamed struct{ toolscache.ListerWatcher }

func (unstreamed) IsWatchListSemanticsUnSupported() bool { return true }

// cacheViews returns the contents of a cache, and the state of a handler of its informer.
func cacheViews(t *testing.T, env *kapoktest.Env, config *rest.Config) (stored, told func() map[string]string) {
	mapper := meta.NewDefaultRESTMapper(nil) // needs no server, which could reject requests
	mapper.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
	c, err := cache.New(config, cache.Options{
		Mapper: mapper, Logger: slog.New(slog.DiscardHandler), DefaultNamespaces: map[string]cache.Config{"default": {}},
	})
	if err != nil {
		t.Fatal(err)
	}
	informer, err := c.GetInformer(t.Context(), &corev1.ConfigMap{}, cache.BlockUntilSynced(false))
	if err != nil {
		t.Fatal(err)
	}
	var h heard
	if _, err := informer.AddEventHandler(&h); err != nil {
		t.Fatal(err)
	}
	env.Go(c.Start)
	return func() map[string]string {
		list := &corev1.ConfigMapList{}
		if err := c.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		view := map[string]string{}
		for _, cm := range list.Items {
			view[cm.Name] = cm.ResourceVersion
		}
		return view
	}, h.get
}
