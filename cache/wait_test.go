package cache_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok/cache"
	"github.com/kapok-dev/kapok/client"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
)

// A client that reads from a cache sees what it wrote, whatever the cache keeps, and without
// waiting for a bookmark.
func TestReadYourWrites(t *testing.T) {
	for name, opts := range map[string]cache.Options{
		"everything": {},
		"namespaces": {DefaultNamespaces: map[string]cache.Config{"default": {}, "kube-system": {}}},
		"others":     {DefaultNamespaces: map[string]cache.Config{"": {}, "kube-system": {}}},
		"selected":   {DefaultLabelSelector: labels.SelectorFromSet(labels.Set{"value": "1"})},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, opts, func(w *world) {
				c, err := client.New(w.server.Config(), client.Options{Cache: &client.CacheOptions{Reader: w.cache, WaitTimeout: time.Second}})
				w.must(err)
				var list corev1.ConfigMapList
				w.must(c.List(w.ctx, &list))
				begin := time.Now()
				for i := range 30 {
					for _, namespace := range []string{"default", "kube-system"} {
						o := configMap(namespace, "a", fmt.Sprint(i%3))
						w.must(c.Create(w.ctx, o))
						read := func(what string) {
							t.Helper()
							var got corev1.ConfigMap
							err := c.Get(w.ctx, client.ObjectKeyFromObject(o), &got)
							kept := name != "selected" || o.Labels["value"] == "1"
							switch {
							case kept && (err != nil || got.ResourceVersion != o.ResourceVersion),
								!kept && !apierrors.IsNotFound(err):
								t.Errorf("%d, after %s: got %s, %v, want %s", i, what, got.ResourceVersion, err, o.ResourceVersion)
							}
						}
						read("create")
						o.Labels["value"] = fmt.Sprint((i + 1) % 3)
						w.must(c.Update(w.ctx, o))
						read("update")
						w.must(c.Delete(w.ctx, o))
						w.must(c.List(w.ctx, &list, client.InNamespace(namespace)))
						if len(list.Items) != 0 {
							t.Errorf("%d: it is still there", i)
						}
					}
				}
				// The update that lets an object go is its end.
				for range 30 {
					o := configMap("default", "held", "1")
					o.Finalizers = []string{"example.com/hold"}
					w.must(c.Create(w.ctx, o))
					w.must(c.Delete(w.ctx, o))
					w.must(c.Get(w.ctx, client.ObjectKeyFromObject(o), o))
					if o.DeletionTimestamp == nil {
						t.Error("the deletion is not seen")
					}
					o.Finalizers = nil
					w.must(c.Update(w.ctx, o))
					if err := c.Get(w.ctx, client.ObjectKeyFromObject(o), o); !apierrors.IsNotFound(err) {
						t.Errorf("after its end: %v %v", o, err)
					}
				}
				// Kinds without namespaces, and other forms.
				n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"value": "1"}}}
				w.must(c.Create(w.ctx, n))
				m := &metav1.PartialObjectMetadata{}
				m.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Node"))
				w.must(c.Get(w.ctx, client.ObjectKeyFromObject(n), m))
				if m.UID != n.UID {
					t.Errorf("got %v", m)
				}
				if d := time.Since(begin); d > time.Second {
					t.Errorf("it took %s", d)
				}
			})
		})
	}
}

// behind runs a test with a client of a cache that sees only the events that the test sends. Writes
// are answered by answers.
func behind(t *testing.T, opts cache.Options, test func(ctx context.Context, s *fakeServer, c client.Client, answers func(runtime.Object))) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeServer(1)
		var next runtime.Object
		s.onRequest = func(r *http.Request) *http.Response {
			if r.Method == http.MethodGet {
				return nil
			}
			return answer(r, 200, encode(r, next))
		}
		config := &rest.Config{Host: "http://fake", Transport: s}
		opts.Mapper = fakeMapper()
		cached, err := cache.New(config, opts)
		if err != nil {
			t.Fatal(err)
		}
		c, err := client.New(config, client.Options{Mapper: fakeMapper(), Cache: &client.CacheOptions{Reader: cached}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = cached.Start(ctx)
		}()
		synctest.Wait()
		if err := c.List(ctx, &corev1.ConfigMapList{}); err != nil {
			t.Error(err)
		}
		test(ctx, s, c, func(o runtime.Object) { next = o })
		cancel()
		<-done
	})
}

// takes checks how long a read takes, and whether it finds something.
func takes(ctx context.Context, t *testing.T, c client.Client, want time.Duration, found bool) {
	t.Helper()
	start := time.Now()
	err := c.Get(ctx, client.Key("default", "a"), &corev1.ConfigMap{})
	if took := time.Since(start); took != want || client.IgnoreNotFound(err) != nil || (err == nil) != found {
		t.Errorf("%v after %v, want %v after %v", err, took, found, want)
	}
}

// An object that is not kept comes after one that was: that is not its state.
func TestPredecessorOfWhatIsNotKept(t *testing.T) {
	opts := cache.Options{DefaultLabelSelector: labels.SelectorFromSet(labels.Set{"value": "1"})}
	behind(t, opts, func(ctx context.Context, s *fakeServer, c client.Client, answer func(runtime.Object)) {
		before := s.put("default", "a") // 11
		synctest.Wait()
		takes(ctx, t, c, 0, true)
		answer(&metav1.Status{Status: metav1.StatusSuccess, Details: &metav1.StatusDetails{UID: before.UID}})
		if err := c.Delete(ctx, configMap("default", "a", "1")); err != nil {
			t.Fatal(err)
		}
		after := configMap("default", "a", "2")
		after.UID, after.ResourceVersion = "another", "13"
		answer(after.DeepCopy())
		if err := c.Create(ctx, configMap("default", "a", "2")); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Second, func() { s.remove("default", "a") })
		takes(ctx, t, c, time.Second, false)
	})
}

// An object that another client has made is gone once it has been deleted, and does not come into
// being after that.
func TestDeletionOfWhatIsUnseen(t *testing.T) {
	behind(t, cache.Options{}, func(ctx context.Context, s *fakeServer, c client.Client, answer func(runtime.Object)) {
		o := configMap("default", "a", "1")
		o.UID, o.ResourceVersion = "uid-11", "11"
		answer(&metav1.Status{Status: metav1.StatusSuccess, Details: &metav1.StatusDetails{UID: o.UID}})
		if err := c.Delete(ctx, o); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Second, func() { s.put("default", "a") })
		time.AfterFunc(2*time.Second, func() { s.remove("default", "a") })
		takes(ctx, t, c, 2*time.Second, false)
	})
}

// TestOpaqueRevisions checks that a client does not wait for resourceVersions that are not numbers,
// as they cannot be compared.
func TestOpaqueRevisions(t *testing.T) {
	behind(t, cache.Options{}, func(ctx context.Context, s *fakeServer, c client.Client, answer func(runtime.Object)) {
		o := configMap("default", "a", "1")
		s.put("default", "a")
		synctest.Wait()
		o.ResourceVersion, o.UID = "abc", "uid-11"
		answer(o)
		if err := c.Update(ctx, o); err != nil {
			t.Fatal(err)
		}
		takes(ctx, t, c, 0, true)
	})
}

// A write of a Scale does not show whether the cache keeps its object.
func TestScaleOfWhatIsNotKept(t *testing.T) {
	opts := cache.Options{DefaultLabelSelector: labels.SelectorFromSet(labels.Set{"value": "1"})}
	inBubble(t, opts, func(w *world) {
		c, err := client.New(w.server.Config(), client.Options{Cache: &client.CacheOptions{Reader: w.cache}})
		w.must(err)
		w.must(c.List(w.ctx, &appsv1.DeploymentList{}))
		selected := map[string]string{"a": "b"}
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}, Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: selected},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: selected},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "b"}}}}}}
		w.must(c.Create(w.ctx, d))
		_, err = client.For[*appsv1.Deployment](c).SetScale(w.ctx, client.ObjectKeyFromObject(d), 3)
		w.must(err)
		start := time.Now()
		w.must(c.List(w.ctx, &appsv1.DeploymentList{}))
		if took := time.Since(start); took > time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// A Pod without a node is not among those of a node, which its write tells.
func TestFieldOfWhatIsNotKept(t *testing.T) {
	opts := cache.Options{ByObject: map[client.Object]cache.ByObject{&corev1.Pod{}: {Field: fields.OneTermEqualSelector("spec.nodeName", "n1")}}}
	inBubble(t, opts, func(w *world) {
		c, err := client.New(w.server.Config(), client.Options{Cache: &client.CacheOptions{Reader: w.cache}})
		w.must(err)
		w.must(c.List(w.ctx, &corev1.PodList{}))
		for kept, node := range []string{"", "n1"} {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "p-"},
				Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "a", Image: "b"}}}}
			w.must(c.Create(w.ctx, pod))
			var list corev1.PodList
			start := time.Now()
			w.must(c.List(w.ctx, &list))
			if took := time.Since(start); took > time.Second || len(list.Items) != kept {
				t.Errorf("%q: %d after %v", node, len(list.Items), took)
			}
		}
	})
}
