package cache_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/cache"
	"github.com/kapok-dev/kapok/client"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// world is a server, a client of it, and a cache of it that is started.
type world struct {
	*testing.T
	ctx    context.Context
	server *kapok.Server
	client.Client
	cache cache.Cache
}

// inBubble runs a test in virtual time.
func inBubble(t *testing.T, opts cache.Options, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		server, err := kapok.Start(t.Context(), kapok.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer server.Stop()
		defer cancel()
		w := &world{T: t, ctx: ctx, server: server}
		if w.Client, err = client.New(server.Config(), client.Options{}); err != nil {
			t.Fatal(err)
		}
		if w.cache, err = cache.New(server.Config(), opts); err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			if err := w.cache.Start(ctx); err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait()
		test(w)
		cancel()
		<-done
	})
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func configMap(namespace, name, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"value": value}},
		Data: map[string]string{"k": value}}
}

// recorder is a handler that writes down what it hears.
type recorder struct {
	mu    sync.Mutex
	lines []string
}

func (r *recorder) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, fmt.Sprintf(format, args...))
}

func (r *recorder) heard() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.lines)
}

func (r *recorder) OnAdd(o client.Object, initial bool) { r.note("add %s %v", o.GetName(), initial) }
func (r *recorder) OnUpdate(old, o client.Object) {
	r.note("update %s %v", o.GetName(), old.GetResourceVersion() == o.GetResourceVersion())
}
func (r *recorder) OnDelete(o client.Object, unknown bool) {
	r.note("delete %s %v", o.GetName(), unknown)
}

func TestReads(t *testing.T) {
	for _, storage := range []cache.Storage{cache.Compact, cache.Decoded} {
		t.Run(string(storage), func(t *testing.T) {
			inBubble(t, cache.Options{DefaultStorage: storage}, func(w *world) {
				w.must(w.Create(w.ctx, configMap("default", "a", "1")))
				w.must(w.Create(w.ctx, configMap("kube-system", "b", "2")))

				var got corev1.ConfigMap
				w.must(w.cache.Get(w.ctx, client.ObjectKey{Namespace: "default", Name: "a"}, &got))
				if got.Data["k"] != "1" || got.Kind != "ConfigMap" || got.APIVersion != "v1" {
					t.Errorf("got %v", got)
				}
				got.Data["k"] = "mine"
				var again corev1.ConfigMap
				w.must(w.cache.Get(w.ctx, client.ObjectKeyFromObject(&got), &again))
				if again.Data["k"] != "1" {
					t.Error("a reader changed the cache")
				}
				if err := w.cache.Get(w.ctx, client.ObjectKey{Namespace: "default", Name: "none"}, &got); !apierrors.IsNotFound(err) ||
					err.Error() != `configmaps "none" not found` {
					t.Errorf("got %v", err)
				}

				var list corev1.ConfigMapList
				w.must(w.cache.List(w.ctx, &list, client.MatchingLabels{"value": "2"}))
				if len(list.Items) != 1 || list.Items[0].Name != "b" {
					t.Errorf("got %v", list.Items)
				}
				w.must(w.cache.List(w.ctx, &list, client.InNamespace("default")))
				for _, o := range list.Items {
					if o.Namespace != "default" {
						t.Errorf("%s is in %s", o.Name, o.Namespace)
					}
				}

				u := &unstructured.Unstructured{}
				u.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"})
				w.must(w.cache.Get(w.ctx, client.ObjectKey{Namespace: "default", Name: "a"}, u))
				if v, _, _ := unstructured.NestedString(u.Object, "data", "k"); v != "1" {
					t.Errorf("got %v", u)
				}
				m := &metav1.PartialObjectMetadataList{}
				m.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMapList"})
				w.must(w.cache.List(w.ctx, m, client.MatchingLabels{"value": "1"}))
				if len(m.Items) != 1 || m.Items[0].Labels["value"] != "1" || m.Items[0].Kind != "ConfigMap" {
					t.Errorf("got %v", m.Items)
				}

				// What is written is there once waited for.
				mine := configMap("default", "c", "3")
				w.must(w.Create(w.ctx, mine))
				inf, err := w.cache.GetInformer(w.ctx, mine)
				w.must(err)
				w.must(inf.WaitForObject(w.ctx, mine))
				w.must(w.cache.Get(w.ctx, client.ObjectKeyFromObject(mine), &got))
				w.must(w.Delete(w.ctx, mine))
				w.must(inf.WaitForDeletion(w.ctx, client.ObjectKeyFromObject(mine), string(mine.UID)))
				if err := w.cache.Get(w.ctx, client.ObjectKeyFromObject(mine), &got); !apierrors.IsNotFound(err) {
					t.Errorf("got %v", err)
				}
			})
		})
	}
}

func TestHandlers(t *testing.T) {
	inBubble(t, cache.Options{ByObject: map[client.Object]cache.ByObject{
		&corev1.ConfigMap{}: {Namespaces: map[string]cache.Config{"default": {}}},
	}}, func(w *world) {
		w.must(w.Create(w.ctx, configMap("default", "a", "1")))
		inf, err := w.cache.GetInformer(w.ctx, &corev1.ConfigMap{})
		w.must(err)
		var early, late, resynced recorder
		r, err := inf.AddEventHandler(&early)
		w.must(err)
		_, err = inf.AddEventHandler(&resynced, cache.ResyncPeriod(time.Hour), cache.MetadataOnly())
		w.must(err)
		synctest.Wait()
		if !r.HasSynced() {
			t.Error("the handler has not synced")
		}
		b := configMap("default", "b", "1")
		w.must(w.Create(w.ctx, b))
		b.Data["k"] = "2"
		w.must(w.Update(w.ctx, b))
		synctest.Wait()
		_, err = inf.AddEventHandler(&late)
		w.must(err)
		w.must(inf.RemoveEventHandler(r))
		w.must(w.Delete(w.ctx, b))
		time.Sleep(90 * time.Minute)
		expect(t, early.heard(), "add a true", "add b false", "update b false")
		expect(t, late.heard(), "add a true", "add b true", "delete b false")
		expect(t, resynced.heard(), "add a true", "add b false", "update b false", "delete b false",
			"update a true")
	})
}

func TestIndices(t *testing.T) {
	inBubble(t, cache.Options{}, func(w *world) {
		w.must(w.Create(w.ctx, configMap("default", "a", "1")))
		w.must(w.Create(w.ctx, configMap("kube-system", "a", "1")))
		value := func(o client.Object) []string { return []string{o.(*corev1.ConfigMap).Data["k"]} }
		w.must(w.cache.IndexField(w.ctx, &corev1.ConfigMap{}, "data.k", value))
		var list corev1.ConfigMapList
		w.must(w.cache.List(w.ctx, &list, client.MatchingFields{"data.k": "1"}))
		if len(list.Items) != 2 {
			t.Errorf("got %d", len(list.Items))
		}
		// One that comes late indexes what is there.
		w.must(w.cache.IndexField(w.ctx, &corev1.ConfigMap{}, "name", func(o client.Object) []string { return []string{o.GetName()} }))
		w.must(w.cache.List(w.ctx, &list, client.MatchingFields{"data.k": "1", "name": "a"}, client.InNamespace("default")))
		if len(list.Items) != 1 {
			t.Errorf("got %d", len(list.Items))
		}
		o := configMap("default", "a", "2")
		w.must(w.Update(w.ctx, o))
		inf, _ := w.cache.GetInformer(w.ctx, o)
		w.must(inf.WaitForRevision(w.ctx, o.ResourceVersion))
		w.must(w.cache.List(w.ctx, &list, client.MatchingFields{"data.k": "1"}))
		if len(list.Items) != 1 || list.Items[0].Namespace != "kube-system" {
			t.Errorf("got %v", list.Items)
		}
		if err := w.cache.List(w.ctx, &list, client.MatchingFields{"none": "1"}); err == nil || err.Error() != "index with name field:none does not exist" {
			t.Errorf("got %v", err)
		}
		if err := w.cache.IndexField(w.ctx, o, "name", value); err == nil {
			t.Error("an index can be added twice")
		}
	})
}

// A kind that does not exist yet is found when it appears.
func TestKindThatAppears(t *testing.T) {
	inBubble(t, cache.Options{}, func(w *world) {
		gvk := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}
		widget := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "a", "namespace": "default"}}}
		widget.SetGroupVersionKind(gvk)
		short, cancel := context.WithTimeout(w.ctx, time.Minute)
		defer cancel()
		if err := w.cache.Get(short, client.ObjectKey{Namespace: "default", Name: "a"}, widget.DeepCopy()); !apierrors.IsTimeout(err) {
			t.Errorf("got %v", err)
		}
		crd := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "widgets.example.com"},
			"spec": map[string]any{"group": "example.com", "scope": "Namespaced", "names": map[string]any{"plural": "widgets", "kind": "Widget"},
				"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": map[string]any{
					"openAPIV3Schema": map[string]any{"type": "object"}}}}},
		}}
		w.must(w.Create(w.ctx, crd))
		time.Sleep(time.Minute)
		w.must(w.Create(w.ctx, widget.DeepCopy()))
		time.Sleep(time.Minute)
		w.must(w.cache.Get(w.ctx, client.ObjectKey{Namespace: "default", Name: "a"}, widget))
	})
}

func TestOptions(t *testing.T) {
	for _, opts := range []cache.Options{{DefaultStorage: "x"}, {ByObject: map[client.Object]cache.ByObject{&corev1.Pod{}: {Storage: "x"}}}} {
		if _, err := cache.New(&rest.Config{}, opts); err == nil {
			t.Errorf("%v is taken", opts)
		}
	}
	if _, err := cache.New(nil, cache.Options{}); err == nil {
		t.Error("no config is taken")
	}
}

func TestNotStarted(t *testing.T) {
	c, err := cache.New(&rest.Config{Host: "localhost:1"}, cache.Options{Scheme: scheme.Scheme, HTTPClient: http.DefaultClient})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Get(t.Context(), client.ObjectKey{Name: "a"}, &corev1.Node{}); err == nil || err.Error() != (&cache.ErrCacheNotStarted{}).Error() {
		t.Errorf("got %v", err)
	}
}

// A handler may read from the cache while that stops.
func TestStopWhileAHandlerReads(t *testing.T) {
	inBubble(t, cache.Options{}, func(w *world) {
		w.must(w.Create(w.ctx, configMap("default", "a", "1")))
		ctx, cancel := context.WithCancel(w.ctx)
		c, err := cache.New(w.server.Config(), cache.Options{})
		w.must(err)
		inf, err := c.GetInformer(ctx, &corev1.ConfigMap{})
		w.must(err)
		var r recorder
		_, err = inf.AddEventHandler(onAdd{&r, func(o client.Object) {
			<-ctx.Done()
			time.Sleep(time.Second) // Start waits by now
			r.note("%v", c.Get(context.Background(), client.ObjectKeyFromObject(o), &corev1.ConfigMap{}))
			r.note("%v", c.List(context.Background(), &corev1.SecretList{}))
		}}, cache.MetadataOnly())
		w.must(err)
		time.AfterFunc(time.Second, cancel)
		w.must(c.Start(ctx))
		if heard := r.heard(); len(heard) < 2 || heard[0] != "<nil>" || heard[1] != "the informer has ended" {
			t.Errorf("got %q", heard)
		}
	})
}

// onAdd calls a function for what is added.
type onAdd struct {
	*recorder
	call func(client.Object)
}

func (h onAdd) OnAdd(o client.Object, _ bool) { h.call(o) }

// What a client that reads from the server refuses is refused for the same reason.
func TestRefusals(t *testing.T) {
	inBubble(t, cache.Options{}, func(w *world) {
		for _, test := range []struct {
			reason string
			read   func(client.Reader) error
		}{
			{"the kind is cluster-scoped", func(r client.Reader) error {
				return r.List(w.ctx, &corev1.NamespaceList{}, client.InNamespace("default"))
			}},
			{"the kind is cluster-scoped", func(r client.Reader) error {
				return r.Get(w.ctx, client.Key("foo", "default"), &corev1.Namespace{})
			}},
			{"the namespace is missing", func(r client.Reader) error { return r.Get(w.ctx, client.Key("", "a"), &corev1.ConfigMap{}) }},
			{"the name is missing", func(r client.Reader) error {
				return r.Get(w.ctx, client.Key("default", ""), &corev1.ConfigMap{})
			}},
		} {
			for what, r := range map[string]client.Reader{"server": w.Client, "cache": w.cache} {
				if err := test.read(r); err == nil || !strings.HasSuffix(err.Error(), test.reason) {
					t.Errorf("%s: %v, want %s", what, err, test.reason)
				}
			}
		}
	})
}
