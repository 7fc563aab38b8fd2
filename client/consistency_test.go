package client_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok/client"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// A slowCache reads from the server, and pretends to have seen only the writes that the test
// selects. It records what it waited for.
type slowCache struct {
	client.Reader
	keeps func(client.Object) bool

	mu     sync.Mutex
	seen   int64 // all revisions up to it
	waits  []string
	change chan struct{} // closed with every change
}

func newSlowCache(t testing.TB, cfg *rest.Config) *slowCache {
	t.Helper()
	live, err := client.New(cfg, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return &slowCache{Reader: live, change: make(chan struct{}), keeps: func(client.Object) bool { return true }}
}

func (s *slowCache) Keeps(obj client.Object) bool { return s.keeps(obj) }

// see has the cache see all writes up to a revision.
func (s *slowCache) see(revision string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := strconv.ParseInt(revision, 10, 64)
	if err != nil {
		panic(err)
	}
	s.seen = max(s.seen, n)
	close(s.change)
	s.change = make(chan struct{})
}

func (s *slowCache) WaitForRevision(ctx context.Context, obj runtime.Object, namespace, revision string) error {
	s.note(fmt.Sprintf("%T %s %s", obj, namespace, revision))
	want, err := strconv.ParseInt(revision, 10, 64)
	if err != nil {
		return err
	}
	for {
		s.mu.Lock()
		seen, change := s.seen, s.change
		s.mu.Unlock()
		if seen >= want {
			return nil
		}
		select {
		case <-change:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *slowCache) WaitForDeletion(_ context.Context, obj runtime.Object, key client.ObjectKey, uid types.UID, begun bool) error {
	if !begun {
		s.note(fmt.Sprintf("%T end of %s %s", obj, key, uid))
		return nil
	}
	s.note(fmt.Sprintf("%T deletion of %s %s", obj, key, uid))
	return nil
}

func (s *slowCache) WaitForChange(_ context.Context, obj runtime.Object, key client.ObjectKey, revision string) error {
	s.note(fmt.Sprintf("%T change of %s %s", obj, key, revision))
	return nil
}

func (s *slowCache) note(wait string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waits = append(s.waits, wait)
}

func (s *slowCache) take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	waits := s.waits
	s.waits = nil
	slices.Sort(waits)
	return waits
}

// A client over a cache reads what it wrote, and waits for nothing else.
func TestReadYourWrites(t *testing.T) {
	ctx := t.Context()
	cfg := startServer(t)
	cache := newSlowCache(t, cfg)
	c, err := client.New(cfg, client.Options{Cache: &client.CacheOptions{Reader: cache, DisableFor: []client.Object{&corev1.Secret{}}}})
	if err != nil {
		t.Fatal(err)
	}
	a, other := configMap("a", "x", "w"), configMap("other")
	other.Namespace = "kube-system"
	key := client.ObjectKeyFromObject(a)
	get := func(opts ...client.GetOption) func() error {
		return func() error { return client.IgnoreNotFound(c.Get(ctx, key, &corev1.ConfigMap{}, opts...)) }
	}
	list := func(opts ...client.ListOption) func() error {
		return func() error { return c.List(ctx, &corev1.ConfigMapList{}, opts...) }
	}
	metadata := func() error {
		m := &metav1.PartialObjectMetadata{}
		m.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
		return client.IgnoreNotFound(c.Get(ctx, key, m))
	}
	unstructuredGet := func() error {
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
		return client.IgnoreNotFound(c.Get(ctx, key, u))
	}
	all := func(err error) error { // the cache sees all that there is
		if err == nil {
			cache.see("1000000")
		}
		return err
	}
	var uid types.UID
	for _, step := range []struct {
		what  string
		write func() error
		read  func() error
		waits func() []string
	}{
		{"nothing written", nil, get(), nil},
		{"a create", func() error { return all(c.Create(ctx, a)) }, get(), func() []string { return []string{"*v1.ConfigMap default " + a.ResourceVersion} }},
		{"seen already", nil, get(), nil},
		{"seen already by a list", nil, list(), nil},
		{"not seen by the metadata", nil, metadata, func() []string { return []string{"*v1.PartialObjectMetadata default " + a.ResourceVersion} }},
		{"an update", func() error { a.Data["x"] = "y"; return c.Update(ctx, a) }, metadata, func() []string { return []string{"*v1.PartialObjectMetadata default " + a.ResourceVersion} }},
		{"another form waits, too", nil, list(client.InNamespace("default")), func() []string { return []string{"*v1.ConfigMapList default " + a.ResourceVersion} }},
		{"both have seen it", nil, list(), nil},
		{"no change", func() error { return c.Update(ctx, a) }, get(client.Stale), nil},
		{"except for a read that is not stale", nil, get(), func() []string { return []string{"*v1.ConfigMap default " + a.ResourceVersion} }},
		{"a stale write", func() error { return c.Update(ctx, a, client.Stale) }, get(), nil},
		{"a dry run", func() error { return c.Update(ctx, a.DeepCopy(), client.DryRunAll) }, get(), nil},
		{"another namespace", func() error { return c.Create(ctx, other) }, get(), nil},
		{"another namespace, by a list", nil, list(), func() []string { return []string{"*v1.ConfigMapList kube-system " + other.ResourceVersion} }},
		{"another kind", func() error {
			return c.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "s"}})
		}, get(), nil},
		{"reads that are not cached", func() error {
			return c.Patch(ctx, a, client.RawPatch(types.MergePatchType, []byte(`{"data":{"x":"z"}}`)))
		}, unstructuredGet, nil},
		{"an apply", func() error {
			return c.Apply(ctx, client.ApplyConfigurationFrom(a), client.FieldOwner("o"), client.ForceOwnership)
		}, get(),
			func() []string { return []string{"*v1.ConfigMap default " + a.ResourceVersion} }},
		{"a write that is not kept", func() error {
			cache.keeps = func(obj client.Object) bool { return obj.GetLabels()["keep"] == "yes" }
			return c.Update(ctx, a)
		}, get(), func() []string {
			return []string{"*v1.ConfigMap change of default/a " + a.ResourceVersion}
		}},
		{"a deletion", func() error { uid = a.UID; return c.Delete(ctx, configMap("a")) }, get(),
			func() []string { return []string{fmt.Sprintf("*v1.ConfigMap deletion of default/a %s", uid)} }},
		{"a deletion of the past", nil, get(), nil},
		{"a failure", func() error { return client.IgnoreNotFound(c.Delete(ctx, configMap("a"))) }, get(), nil},
		{"deletions", func() error {
			cache.keeps = func(client.Object) bool { return true }
			if err := c.Create(ctx, configMap("b"), client.Stale); err != nil {
				return err
			}
			b := &corev1.ConfigMap{}
			if err := c.Get(ctx, client.Key("default", "b"), b, client.Stale); err != nil {
				return err
			}
			uid = b.UID
			return c.DeleteAllOf(ctx, &corev1.ConfigMap{}, client.InNamespace("default"), client.MatchingFields{"metadata.name": "b"})
		}, list(client.InNamespace("default")), func() []string { return []string{fmt.Sprintf("*v1.ConfigMapList deletion of default/b %s", uid)} }},
	} {
		if step.write != nil {
			if err := step.write(); err != nil {
				t.Fatalf("%s: %v", step.what, err)
			}
		}
		if err := step.read(); err != nil {
			t.Fatalf("%s: %v", step.what, err)
		}
		var want []string
		if step.waits != nil {
			want = step.waits()
		}
		if got := cache.take(); !slices.Equal(got, want) {
			t.Errorf("%s: waited for %q, want %q", step.what, got, want)
		}
	}
}

// Status and scale are writes of their object.
func TestReadYourWritesOfSubresources(t *testing.T) {
	ctx := t.Context()
	cfg := startServer(t)
	cache := newSlowCache(t, cfg)
	cache.see("1000000")
	c, err := client.New(cfg, client.Options{Cache: &client.CacheOptions{Reader: cache}})
	if err != nil {
		t.Fatal(err)
	}
	h := client.For[*appsv1.Deployment](c).In("default")
	d := deployment("d", 1)
	if err := h.Create(ctx, d, client.Stale); err != nil {
		t.Fatal(err)
	}
	d.Status.Replicas = 1
	if err := h.Status().Update(ctx, d); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Get(ctx, client.Key("", "d")); err != nil {
		t.Fatal(err)
	}
	if got, want := cache.take(), []string{"*v1.Deployment default " + d.ResourceVersion}; !slices.Equal(got, want) {
		t.Errorf("status: waited for %q, want %q", got, want)
	}
	cache.keeps = func(obj client.Object) bool { return obj.GetName() == "d" && obj.GetAnnotations()["a"] == "b" } // a Scale has no annotations
	scale, err := h.SetScale(ctx, client.Key("", "d"), 3)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.List(ctx); err != nil {
		t.Fatal(err)
	}
	if got, want := cache.take(), []string{"*v1.DeploymentList change of default/d " + scale.ResourceVersion}; !slices.Equal(got, want) {
		t.Errorf("scale: waited for %q, want %q", got, want)
	}
}

// Reads wait until the cache has seen the write, or for so long, or until their context ends. The
// time is measured.
func TestReadYourWritesWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		cfg := startServer(t)
		cache := newSlowCache(t, cfg)
		metrics := prometheus.NewRegistry()
		opts := client.CacheOptions{Reader: cache, Metrics: metrics}
		c, err := client.New(cfg, client.Options{Cache: &opts})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.New(cfg, client.Options{Cache: &opts}); err != nil {
			t.Errorf("a second client of the same registry: %v", err)
		}
		cm := configMap("a")
		key := client.ObjectKeyFromObject(cm)
		if err := c.Create(ctx, cm); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		time.AfterFunc(3*time.Second, func() { cache.see(cm.ResourceVersion) })
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				if err := c.Get(ctx, key, &corev1.ConfigMap{}); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if waited := time.Since(start); waited != 3*time.Second {
			t.Errorf("waited %v", waited)
		}

		if err := c.Patch(ctx, cm, client.RawPatch(types.MergePatchType, []byte(`{"data":{"x":"y"}}`))); err != nil {
			t.Fatal(err)
		}
		start = time.Now()
		err = c.Get(ctx, key, &corev1.ConfigMap{})
		if waited := time.Since(start); !errors.Is(err, client.ErrStale) || waited != client.DefaultWaitTimeout {
			t.Errorf("waited %v: %v", waited, err)
		}
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if err := c.List(short, &corev1.ConfigMapList{}); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, client.ErrStale) {
			t.Errorf("the context ends: %v", err)
		}
		if err := c.List(short, &corev1.ConfigMapList{}, client.Stale); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the context has ended: %v", err)
		}
		if err := c.List(ctx, &corev1.ConfigMapList{}, client.Stale); err != nil {
			t.Errorf("stale: %v", err)
		}
		cache.see(cm.ResourceVersion)
		if err := c.List(ctx, &corev1.ConfigMapList{}); err != nil {
			t.Errorf("seen: %v", err)
		}
		// A write that is not kept is seen by the end of its object in the cache, without its
		// revision.
		cache.keeps = func(client.Object) bool { return false }
		cm.Data = map[string]string{"x": "z"}
		if err := c.Update(ctx, cm); err != nil {
			t.Fatal(err)
		}
		if err := c.Get(ctx, key, &corev1.ConfigMap{}); err != nil {
			t.Errorf("gone: %v", err)
		}
		// What was written long ago is not waited for.
		cache.keeps = func(client.Object) bool { return true }
		if err := c.Create(ctx, configMap("old")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute + time.Second)
		start = time.Now()
		if err := c.List(ctx, &corev1.ConfigMapList{}); err != nil || time.Since(start) > 0 {
			t.Errorf("old: %v after %v", err, time.Since(start))
		}

		families, err := metrics.Gather()
		if err != nil || len(families) != 1 || families[0].GetName() != "kapok_client_cache_wait_seconds" {
			t.Fatalf("metrics: %v, %v", families, err)
		}
		h := families[0].GetMetric()[0].GetHistogram()
		if h.GetSampleCount() != 14 || h.GetSampleSum() != 10*3+10+1 {
			t.Errorf("%d waits of %v s together", h.GetSampleCount(), h.GetSampleSum())
		}
	})
}

// A cache that cannot wait, or need not, is read at once.
func TestStaleCache(t *testing.T) {
	ctx := t.Context()
	cfg := startServer(t)
	cache := newSlowCache(t, cfg)
	for _, opts := range []client.CacheOptions{{Reader: cache.Reader}, {Reader: cache, Stale: true}} {
		c, err := client.New(cfg, client.Options{Cache: &opts})
		if err != nil {
			t.Fatal(err)
		}
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "x-"}}
		if err := c.Create(ctx, cm); err != nil {
			t.Fatal(err)
		}
		if err := c.Get(ctx, client.ObjectKeyFromObject(cm), cm); err != nil {
			t.Error(err)
		}
		if waits := cache.take(); len(waits) > 0 {
			t.Errorf("waited for %v", waits)
		}
	}
}
