package cache_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kapok-dev/kapok/cache"
	"github.com/kapok-dev/kapok/client"
)

// A client that reads from a cache sees what it wrote, whatever the cache keeps, and without waiting for a bookmark.
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
