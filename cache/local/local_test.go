package local_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok"
	"github.com/kapok-dev/kapok/cache"
	"github.com/kapok-dev/kapok/cache/local"
	"github.com/kapok-dev/kapok/client"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a server with a client that reads from it, and a cache of its state.
type rig struct {
	*testing.T
	server *kapok.Server
	client client.Client
	cache  cache.Cache
}

// inBubble runs a test with a rig in a testing/synctest bubble.
func inBubble(t *testing.T, opts cache.Options, test func(r *rig)) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		server, err := kapok.Start(ctx, kapok.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer server.Stop()
		defer stop()
		r := &rig{T: t, server: server}
		opts.Scheme = runtime.NewScheme()
		if err := scheme.AddToScheme(opts.Scheme); err != nil {
			t.Fatal(err)
		}
		if err := apiextensionsv1.AddToScheme(opts.Scheme); err != nil {
			t.Fatal(err)
		}
		if r.client, err = client.New(server.Config(), client.Options{Scheme: opts.Scheme}); err != nil {
			t.Fatal(err)
		}
		r.cache = r.start(ctx, opts)
		test(r)
	})
}

// start starts a cache of the state. It reads no object through the connection.
func (r *rig) start(ctx context.Context, opts cache.Options) cache.Cache {
	cfg := r.server.Config()
	opts.State = local.Of(cfg)
	if opts.State == nil {
		r.Fatal("the server has no state in this process")
	}
	opts.Logger = slog.New(slog.DiscardHandler)
	opts.HTTPClient = &http.Client{Transport: onlyDiscovery{r.T, cfg.Transport}}
	c, err := cache.New(cfg, opts)
	if err != nil {
		r.Fatal(err)
	}
	go c.Start(ctx)
	if !c.WaitForCacheSync(ctx) {
		r.Fatal("the cache did not start")
	}
	return c
}

// onlyDiscovery fails the test when objects are requested.
type onlyDiscovery struct {
	t    *testing.T
	next http.RoundTripper
}

func (o onlyDiscovery) RoundTrip(r *http.Request) (*http.Response, error) {
	if parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/"); len(parts) > 3 || len(parts) == 3 && parts[0] == "api" {
		o.t.Errorf("%s %s", r.Method, r.URL)
	}
	return o.next.RoundTrip(r)
}

func (r *rig) do(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

func configMap(name string, labels map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: labels}, Data: map[string]string{}}
}

// TestReadsSeeEveryWrite checks that a read shows each write that was committed before it, without
// waiting for one, in all forms and with all selectors of a cache.
func TestReadsSeeEveryWrite(t *testing.T) {
	for _, storage := range []cache.Storage{cache.Compact, cache.Decoded} {
		t.Run(string(storage), func(t *testing.T) {
			inBubble(t, cache.Options{DefaultStorage: storage}, func(r *rig) {
				t := r.T
				r.do(r.cache.IndexField(t.Context(), &corev1.ConfigMap{}, "color", func(o client.Object) []string {
					return []string{o.(*corev1.ConfigMap).Data["color"]}
				}))
				random := rand.New(rand.NewPCG(1, 2))
				for i := range 200 {
					cm := configMap(fmt.Sprint("cm-", random.IntN(8)), map[string]string{"app": fmt.Sprint(random.IntN(3))})
					cm.Data["color"] = fmt.Sprint(random.IntN(4))
					switch err := r.client.Get(t.Context(), client.ObjectKeyFromObject(cm), &corev1.ConfigMap{}); {
					case apierrors.IsNotFound(err):
						r.do(r.client.Create(t.Context(), cm))
					case random.IntN(3) == 0:
						r.do(r.client.Delete(t.Context(), cm))
					default:
						r.do(r.client.Update(t.Context(), cm))
					}
					r.compare(i, &corev1.ConfigMapList{}, &corev1.ConfigMapList{})
					r.compare(i, &corev1.ConfigMapList{}, &corev1.ConfigMapList{}, client.MatchingLabels{"app": "1"})
					r.compare(i, partial(), partial())
					r.compare(i, untyped(), untyped(), client.InNamespace("default"))
					color := fmt.Sprint(random.IntN(4))
					var found, all corev1.ConfigMapList
					r.do(r.cache.List(t.Context(), &found, client.MatchingFields{"color": color}, client.UnsafeDisableDeepCopy))
					r.do(r.client.List(t.Context(), &all))
					if want := slices.DeleteFunc(all.Items, func(cm corev1.ConfigMap) bool { return cm.Data["color"] != color }); text(found.Items) != text(want) {
						t.Fatalf("step %d: color %s is\n%s\nwant\n%s", i, color, text(found.Items), text(want))
					}
				}
			})
		})
	}
}

func partial() client.ObjectList {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
	return list
}

func untyped() client.ObjectList {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
	return list
}

func text(v any) string {
	return strings.ReplaceAll(fmt.Sprintf("%+v", v), "TypeMeta:{Kind:ConfigMap APIVersion:v1}", "TypeMeta:{Kind: APIVersion:}")
}

// compare compares a list from the cache with one from the server.
func (r *rig) compare(step int, have, want client.ObjectList, opts ...client.ListOption) {
	r.Helper()
	r.do(r.cache.List(r.Context(), have, opts...))
	r.do(r.client.List(r.Context(), want, opts...))
	if items(r, have) != items(r, want) {
		r.Fatalf("step %d: the cache has\n%s\nthe server\n%s", step, items(r, have), items(r, want))
	}
}

func items(r *rig, list client.ObjectList) string {
	var b strings.Builder
	switch l := list.(type) {
	case *corev1.ConfigMapList:
		b.WriteString(text(l.Items))
	case *unstructured.UnstructuredList:
		for _, u := range l.Items {
			json, err := u.MarshalJSON()
			r.do(err)
			b.Write(json)
		}
	case *metav1.PartialObjectMetadataList:
		for _, m := range l.Items {
			fmt.Fprintf(&b, "%+v\n", m.ObjectMeta)
		}
	}
	return b.String()
}

// TestEventsAreThoseOfAConnection compares what handlers of both kinds of caches receive.
func TestEventsAreThoseOfAConnection(t *testing.T) {
	inBubble(t, cache.Options{ByObject: map[client.Object]cache.ByObject{&corev1.ConfigMap{}: {
		Label:      labels.SelectorFromSet(labels.Set{"kept": "yes"}),
		Namespaces: map[string]cache.Config{"one": {}, "two": {FieldSelector: fields.OneTermEqualSelector("metadata.name", "a")}, cache.AllNamespaces: {}},
		Transform: func(o any) (any, error) {
			o.(client.Object).SetAnnotations(nil)
			return o, nil
		},
	}}}, func(r *rig) {
		t := r.T
		cfg := r.server.Config()
		connected, err := cache.New(cfg, cache.Options{ByObject: map[client.Object]cache.ByObject{&corev1.ConfigMap{}: {
			Label:      labels.SelectorFromSet(labels.Set{"kept": "yes"}),
			Namespaces: map[string]cache.Config{"one": {}, "two": {FieldSelector: fields.OneTermEqualSelector("metadata.name", "a")}, cache.AllNamespaces: {}},
			Transform: func(o any) (any, error) {
				o.(client.Object).SetAnnotations(nil)
				return o, nil
			},
		}}})
		r.do(err)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go connected.Start(ctx)
		if !connected.WaitForCacheSync(ctx) {
			t.Fatal("the cache did not start")
		}
		for _, name := range []string{"one", "two", "three"} {
			r.do(r.client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
		}
		var own, theirs recorder
		own.listen(r, r.cache)
		theirs.listen(r, connected)
		random := rand.New(rand.NewPCG(3, 4))
		for range 300 {
			cm := configMap(fmt.Sprint(string(rune('a'+random.IntN(3)))), map[string]string{"kept": []string{"yes", "no"}[random.IntN(2)]})
			cm.Namespace = []string{"one", "two", "three"}[random.IntN(3)]
			cm.Annotations = map[string]string{"dropped": "yes"}
			cm.Data["n"] = fmt.Sprint(random.IntN(100))
			err := r.client.Create(t.Context(), cm)
			if apierrors.IsAlreadyExists(err) && random.IntN(3) > 0 {
				err = r.client.Update(t.Context(), cm)
			} else if apierrors.IsAlreadyExists(err) {
				err = r.client.Delete(t.Context(), cm)
			}
			r.do(err)
		}
		synctest.Wait()
		if len(own.seen) == 0 {
			t.Fatal("no events")
		}
		for key, want := range theirs.seen {
			if have := own.seen[key]; !slices.Equal(have, want) {
				t.Errorf("%s: the events are\n%s\nwant\n%s", key, strings.Join(have, "\n"), strings.Join(want, "\n"))
			}
		}
		if len(own.seen) != len(theirs.seen) {
			t.Errorf("events of %d objects, want %d", len(own.seen), len(theirs.seen))
		}
	})
}

// A recorder is an EventHandler that collects events by object.
type recorder struct {
	mu   sync.Mutex
	seen map[string][]string
}

func (r *recorder) listen(rig *rig, c cache.Cache) {
	r.seen = map[string][]string{}
	informer, err := c.GetInformer(rig.Context(), &corev1.ConfigMap{})
	rig.do(err)
	_, err = informer.AddEventHandler(r)
	rig.do(err)
}

func (r *recorder) note(o client.Object, what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := client.ObjectKeyFromObject(o).String()
	r.seen[key] = append(r.seen[key], what+" "+text(o))
}

func (r *recorder) OnAdd(o client.Object, initial bool)    { r.note(o, fmt.Sprint("add ", initial)) }
func (r *recorder) OnUpdate(old, o client.Object)          { r.note(o, "update of "+text(old)) }
func (r *recorder) OnDelete(o client.Object, unknown bool) { r.note(o, fmt.Sprint("delete ", unknown)) }

// TestDefinitionsThatComeAndGo checks that the objects of a kind are gone with its definition, and
// that those of the next one are found.
func TestDefinitionsThatComeAndGo(t *testing.T) {
	inBubble(t, cache.Options{}, func(r *rig) {
		t := r.T
		for round := range 3 {
			crd := widgets()
			r.do(r.client.Create(t.Context(), crd))
			widget := newWidget()
			for r.client.Create(t.Context(), widget) != nil { // until it is served
				synctest.Wait()
			}
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(widget.GroupVersionKind().GroupVersion().WithKind("WidgetList"))
			for len(list.Items) == 0 { // the mapper, and the pause after a failure
				r.do(r.cache.List(t.Context(), list))
				if len(list.Items) == 0 {
					sleep()
				}
			}
			if got := list.Items[0].GetResourceVersion(); got != widget.GetResourceVersion() {
				t.Errorf("round %d: resourceVersion %s, want %s", round, got, widget.GetResourceVersion())
			}
			r.do(r.client.Delete(t.Context(), crd))
			for r.client.Get(t.Context(), client.ObjectKeyFromObject(crd), crd) == nil {
				sleep()
			}
			r.do(r.cache.List(t.Context(), list))
			if len(list.Items) > 0 {
				t.Errorf("round %d: there are %d widgets without a definition", round, len(list.Items))
			}
		}
	})
}

// TestNewDefinition checks that objects are read in the form of a definition that was changed.
func TestNewDefinition(t *testing.T) {
	inBubble(t, cache.Options{}, func(r *rig) {
		t := r.T
		crd := widgets()
		r.do(r.client.Create(t.Context(), crd))
		widget := newWidget()
		for r.client.Create(t.Context(), widget) != nil {
			synctest.Wait()
		}
		got := newWidget()
		r.do(r.cache.Get(t.Context(), client.ObjectKeyFromObject(widget), got))
		r.do(retry.RetryOnConflict(retry.DefaultRetry, func() error { // the server may write its status meanwhile
			r.do(r.client.Get(t.Context(), client.ObjectKeyFromObject(crd), crd))
			schema := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
			schema.Properties["size"] = apiextensionsv1.JSONSchemaProps{Type: "integer", Default: &apiextensionsv1.JSON{Raw: []byte("3")}}
			return r.client.Update(t.Context(), crd)
		}))
		for {
			r.do(r.client.Get(t.Context(), client.ObjectKeyFromObject(widget), widget))
			if _, found, _ := unstructured.NestedInt64(widget.Object, "size"); found {
				break
			}
			sleep()
		}
		widget.SetLabels(map[string]string{"a": "b"})
		r.do(r.client.Update(t.Context(), widget))
		r.do(r.cache.Get(t.Context(), client.ObjectKeyFromObject(widget), got))
		if size, _, _ := unstructured.NestedInt64(got.Object, "size"); size != 3 {
			t.Errorf("size %d in %v", size, got)
		}
	})
}

func widgets() *apiextensionsv1.CustomResourceDefinition {
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Kind: "Widget"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"color": {Type: "string"}},
				}},
			}},
		},
	}
}

func newWidget() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"namespace": "default", "name": "w"}, "color": "red",
	}}
}

// TestOtherUsers checks that only the configuration of the administrator has a state.
func TestOtherUsers(t *testing.T) {
	inBubble(t, cache.Options{}, func(r *rig) {
		t := r.T
		for name, change := range map[string]func(*rest.Config){
			"impersonation": func(c *rest.Config) { c.Impersonate.UserName = "jane" },
			"token":         func(c *rest.Config) { c.BearerToken = "t" },
			"token file":    func(c *rest.Config) { c.BearerTokenFile = "t" },
			"password":      func(c *rest.Config) { c.Username = "jane" },
			"transport":     func(c *rest.Config) { c.Transport = http.DefaultTransport },
			"wrapper":       func(c *rest.Config) { c.WrapTransport = func(rt http.RoundTripper) http.RoundTripper { return rt } },
		} {
			cfg := r.server.Config()
			if change(cfg); local.Of(cfg) != nil {
				t.Errorf("%s: has a state", name)
			}
		}
	})
}

// sleep lets a second of virtual time pass.
func sleep() { time.Sleep(time.Second) }

// TestConcurrentReads checks that each of several goroutines finds its own writes, and none that
// was undone, while the others write.
func TestConcurrentReads(t *testing.T) {
	inBubble(t, cache.Options{}, func(r *rig) {
		t := r.T
		informer, err := r.cache.GetInformer(t.Context(), &corev1.ConfigMap{})
		r.do(err)
		seen := recorder{seen: map[string][]string{}}
		_, err = informer.AddEventHandler(&seen)
		r.do(err)
		var all sync.WaitGroup
		for worker := range 8 {
			all.Go(func() {
				random := rand.New(rand.NewPCG(uint64(worker), 1))
				key := client.ObjectKey{Namespace: "default", Name: fmt.Sprint("cm-", worker)}
				for i := range 100 {
					cm := configMap(key.Name, nil)
					if err := r.client.Create(t.Context(), cm); err != nil {
						t.Errorf("create: %v", err)
						return
					}
					cm.Data = map[string]string{"i": fmt.Sprint(i)}
					if err := r.client.Update(t.Context(), cm); err != nil {
						t.Errorf("update: %v", err)
						return
					}
					var got corev1.ConfigMap
					var opts []client.GetOption
					if random.IntN(2) == 0 {
						opts = append(opts, client.UnsafeDisableDeepCopy)
					}
					if err := r.cache.Get(t.Context(), key, &got, opts...); err != nil || got.ResourceVersion != cm.ResourceVersion || got.Data["i"] != cm.Data["i"] {
						t.Errorf("read %s %v, %v; want %s %v", got.ResourceVersion, got.Data, err, cm.ResourceVersion, cm.Data)
					}
					if err := r.client.Delete(t.Context(), cm); err != nil {
						t.Errorf("delete: %v", err)
						return
					}
					if err := r.cache.Get(t.Context(), key, &got); !apierrors.IsNotFound(err) {
						t.Errorf("read a deleted object: %v", err)
					}
				}
			})
		}
		all.Wait()
		synctest.Wait()
		for worker := range 8 {
			if n := len(seen.seen[fmt.Sprint("default/cm-", worker)]); n != 300 {
				t.Errorf("worker %d: %d events, want 300", worker, n)
			}
		}
	})
}
