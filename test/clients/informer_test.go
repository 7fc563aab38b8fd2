package clients

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kapok-dev/kapok"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/features"
	featurestesting "k8s.io/client-go/features/testing"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

// requests counts the ways in which a client reads a collection.
type requests struct {
	next                    http.RoundTripper
	lists, watches, streams atomic.Int32
}

func (r *requests) RoundTrip(req *http.Request) (*http.Response, error) {
	if strings.HasSuffix(req.URL.Path, "/configmaps") && req.Method == http.MethodGet {
		switch q := req.URL.Query(); {
		case q.Get("sendInitialEvents") == "true":
			r.streams.Add(1)
		case q.Get("watch") == "true":
			r.watches.Add(1)
		default:
			r.lists.Add(1)
		}
	}
	return r.next.RoundTrip(req)
}

func (r *requests) await(t *testing.T, done func() bool) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, 30*time.Second, true, func(context.Context) (bool, error) {
		return done(), nil
	}); err != nil {
		t.Fatal("informer does not ask")
	}
}

func count(config *rest.Config) (*rest.Config, *requests) {
	counted := &requests{}
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		counted.next = next
		return counted
	})
	return config, counted
}

// names are the objects of an informer's events.
type names struct {
	sync.Mutex
	added, deleted map[string]int
}

func (n *names) handler() cache.ResourceEventHandlerFuncs {
	n.added, n.deleted = map[string]int{}, map[string]int{}
	note := func(m map[string]int, obj any) {
		n.Lock()
		defer n.Unlock()
		if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = gone.Obj
		}
		m[obj.(*corev1.ConfigMap).Name]++
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { note(n.added, obj) },
		DeleteFunc: func(obj any) { note(n.deleted, obj) },
	}
}

func (n *names) count() (added, deleted int) {
	n.Lock()
	defer n.Unlock()
	return len(n.added), len(n.deleted)
}

func (n *names) await(t *testing.T, added, deleted int) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, 30*time.Second, true, func(context.Context) (bool, error) {
		a, d := n.count()
		return a == added && d == deleted, nil
	})
	if err != nil {
		a, d := n.count()
		t.Fatalf("informer delivered %d added and %d deleted objects, want %d and %d", a, d, added, deleted)
	}
}

// TestInformer runs the shared informer of client-go with a streaming list, its default, and with
// list requests.
func TestInformer(t *testing.T) {
	for _, streaming := range []bool{true, false} {
		t.Run(fmt.Sprintf("streaming=%v", streaming), func(t *testing.T) {
			featurestesting.SetFeatureDuringTest(t, features.WatchListClient, streaming)
			config, counted := count(start(t))
			client, err := kubernetes.NewForConfig(config)
			if err != nil {
				t.Fatal(err)
			}
			maps := client.CoreV1().ConfigMaps("default")
			create := func(name string) {
				t.Helper()
				if _, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			for i := range 10 {
				create(fmt.Sprintf("before-%d", i))
			}
			factory := informers.NewSharedInformerFactory(client, 0)
			informer := factory.Core().V1().ConfigMaps().Informer()
			var seen names
			if _, err := informer.AddEventHandler(seen.handler()); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			factory.Start(ctx.Done())
			if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
				t.Fatal("informer did not sync")
			}
			for i := range 10 {
				create(fmt.Sprintf("after-%d", i))
			}
			if err := maps.Delete(t.Context(), "before-0", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			seen.await(t, 20, 1)
			cancel()
			factory.Shutdown()
			if lists := counted.lists.Load(); streaming && lists > 0 {
				t.Errorf("a streaming informer has listed %d times", lists)
			}
		})
	}
}

// TestInformerSurvivesRestart restarts the server on the same data and address. The informer
// continues from its resourceVersion: it does not list again.
func TestInformerSurvivesRestart(t *testing.T) {
	featurestesting.SetFeatureDuringTest(t, features.WatchListClient, false)
	dir := t.TempDir()
	run := func(listen string) *kapok.Server {
		t.Helper()
		server, err := kapok.Start(t.Context(), kapok.Options{
			DataDir: dir, Listen: listen,
			Accounts: kapok.AccountOptions{None: true}, // they create a config map that is not counted here
		})
		if err != nil {
			t.Fatal(err)
		}
		return server
	}
	server := run("127.0.0.1:0")
	address := server.Address()
	config, err := clientcmd.RESTConfigFromKubeConfig(server.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	config, counted := count(config)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	create := func(name string) {
		t.Helper()
		_, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	create("one")
	informer := cache.NewSharedIndexInformer(cache.NewListWatchFromClient(client.CoreV1().RESTClient(), "configmaps", "default", fields.Everything()), &corev1.ConfigMap{}, 0, nil)
	var seen names
	if _, err := informer.AddEventHandler(seen.handler()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { informer.RunWithContext(ctx) })
	defer running.Wait()
	defer cancel()
	counted.await(t, func() bool { return counted.watches.Load() == 1 })
	create("two") // over the watch: client-go would treat a watch without events as broken
	seen.await(t, 2, 0)

	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	server = run(address)
	defer server.Stop()
	create("three")
	seen.await(t, 3, 0)
	if lists := counted.lists.Load(); lists != 1 {
		t.Errorf("the informer has listed %d times", lists)
	}
}
