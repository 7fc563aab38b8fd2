package client_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok/client"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// Kinds are looked for when they are needed, and again when they are missed, but not without end.
func TestMapper(t *testing.T) {
	cfg := startServer(t)
	w := tap(cfg)
	mapper, err := client.NewRESTMapper(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	asked := func() int {
		w.mu.Lock()
		defer w.mu.Unlock()
		n := len(w.sent)
		w.sent = nil
		return n
	}
	if n := asked(); n != 0 {
		t.Errorf("NewRESTMapper asked %d times", n)
	}
	mapping, err := mapper.RESTMapping(schema.GroupKind{Group: "apps", Kind: "Deployment"}, "v1")
	if err != nil || mapping.Resource.Resource != "deployments" || mapping.Scope.Name() != meta.RESTScopeNameNamespace {
		t.Fatalf("deployments: %v, %v", mapping, err)
	}
	if n := asked(); n != 2 {
		t.Errorf("asked %d times for the groups, want /api and /apis", n)
	}
	if gvr, err := mapper.ResourceFor(schema.GroupVersionResource{Resource: "configmap"}); err != nil || gvr.Version != "v1" {
		t.Errorf("configmap: %v, %v", gvr, err)
	}
	if n := asked(); n != 0 {
		t.Errorf("asked %d times for what is known", n)
	}
	kind := gadgetVersion.WithKind("Gadget").GroupKind()
	if _, err := mapper.RESTMapping(kind, "v1"); !meta.IsNoMatchError(err) {
		t.Errorf("no gadgets yet: %v", err)
	}
	c, err := client.New(cfg, client.Options{Scheme: gadgetScheme(t), Mapper: mapper})
	if err != nil {
		t.Fatal(err)
	}
	defineGadgets(t, c)
	if mapping, err := mapper.RESTMapping(kind, "v1"); err != nil || mapping.Resource.Resource != "gadgets" {
		t.Errorf("gadgets: %v, %v", mapping, err)
	}
	asked()
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			for range 20 {
				if _, err := mapper.RESTMapping(schema.GroupKind{Group: "no", Kind: "Such"}); !meta.IsNoMatchError(err) {
					t.Errorf("no such kind: %v", err)
				}
			}
		})
	}
	wg.Wait()
	if n := asked(); n > 40 {
		t.Errorf("asked %d times for what there is not", n)
	}
	if namespaced, err := c.IsObjectNamespaced(&corev1.NodeList{}); err != nil || namespaced {
		t.Errorf("nodes: %v, %v", namespaced, err)
	}
	if namespaced, err := c.IsObjectNamespaced(&gadget{}); err != nil || !namespaced {
		t.Errorf("gadgets: %v, %v", namespaced, err)
	}
}

// A server that is out of reach, and a group whose own server is, are not taken for kinds that do
// not exist.
func TestMapperFails(t *testing.T) {
	cfg := startServer(t)
	w := tap(cfg)
	mapper, err := client.NewRESTMapper(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	down := true
	w.answer = func(r *http.Request) *http.Response {
		switch {
		case down:
			return answerJSON(500, `{}`)
		case r.URL.Path == "/apis":
			return answerJSON(200, `{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"metrics","versions":[{"groupVersion":"metrics/v1","version":"v1"}],
				"preferredVersion":{"groupVersion":"metrics/v1","version":"v1"}}]}`)
		case r.URL.Path == "/apis/metrics/v1":
			return answerJSON(503, `{}`)
		}
		return nil
	}
	kind := schema.GroupKind{Group: "metrics", Kind: "PodMetrics"}
	if _, err := mapper.RESTMapping(kind, "v1"); err == nil || meta.IsNoMatchError(err) {
		t.Errorf("the server is down: %v", err)
	}
	down = false
	if _, err := mapper.RESTMapping(kind, "v1"); err == nil || meta.IsNoMatchError(err) {
		t.Errorf("the group is down: %v", err)
	}
	if _, err := mapper.RESTMapping(schema.GroupKind{Kind: "Pod"}, "v1"); err != nil {
		t.Errorf("pods: %v", err)
	}
	if _, err := mapper.RESTMapping(schema.GroupKind{Group: "other", Kind: "Pod"}, "v1"); !meta.IsNoMatchError(err) {
		t.Errorf("other pods: %v", err)
	}
}

// Many callers miss the same kind at once, and a slow server receives one request.
func TestMapperStampede(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := startServer(t)
		w := tap(cfg)
		var asked atomic.Int32
		w.answer = func(r *http.Request) *http.Response {
			if r.URL.Path == "/apis" {
				asked.Add(1)
				time.Sleep(time.Second)
			}
			return nil
		}
		mapper, err := client.NewRESTMapper(cfg, nil)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		for i := range 50 {
			go func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				_, err := mapper.RESTMapping(corev1.SchemeGroupVersion.WithKind("Pod").GroupKind(), "v1")
				done <- err
			}()
		}
		for range 50 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if n := asked.Load(); n != 1 {
			t.Errorf("asked %d times", n)
		}
		// A kind that is missing is looked for about once a second.
		asked.Store(0)
		for start := time.Now(); time.Since(start) < time.Minute; time.Sleep(10 * time.Millisecond) {
			if _, err := mapper.RESTMapping(gadgetVersion.WithKind("Gadget").GroupKind(), "v1"); !meta.IsNoMatchError(err) {
				t.Fatal(err)
			}
		}
		if n := asked.Load(); n < 30 || n > 75 {
			t.Errorf("asked %d times in a minute", n)
		}
	})
}

// A call to a server that does not respond ends with its context, and after 32 seconds at the
// latest.
func TestMapperOfASilentServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := roundTripper(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		c, err := client.New(&rest.Config{Host: "http://silent", Transport: silent}, client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for seconds, want := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 3600: 34 * time.Second} {
			wg.Go(func() {
				start := time.Now()
				time.Sleep(time.Duration(min(seconds, 2)) * time.Microsecond) // the first asks, the second waits for it
				ctx, cancel := context.WithDeadline(t.Context(), start.Add(time.Duration(seconds)*time.Second))
				defer cancel()
				err := c.Get(ctx, client.Key("a", "b"), &corev1.ConfigMap{})
				if took := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || took > want {
					t.Errorf("%v after %v, want %v", err, took, want)
				}
			})
		}
		wg.Wait()
	})
}
