package cache_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok/cache"
	"github.com/kapok-dev/kapok/client"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
)

// onFake runs a test in virtual time with a fake server that has two objects, and an informer of it
// that has begun.
func onFake(t *testing.T, prepare func(*fakeServer), test func(s *fakeServer, inf cache.Informer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeServer(1)
		s.put("default", "a")
		s.put("default", "b")
		if prepare != nil {
			prepare(s)
		}
		c, err := cache.New(&rest.Config{Host: "http://fake", Transport: s}, cache.Options{Mapper: fakeMapper(), Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = c.Start(ctx)
		}()
		synctest.Wait()
		inf, err := c.GetInformer(ctx, &corev1.ConfigMap{}, cache.BlockUntilSynced(false))
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		test(s, inf)
		cancel()
		<-done
	})
}

// asked returns the requests since the last call, in short form.
func (s *fakeServer) asked() (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, raw := range s.requests {
		q, _ := url.ParseQuery(raw)
		what := "list"
		if q.Get("sendInitialEvents") != "" {
			what = "stream"
		} else if q.Get("watch") != "" {
			what = "watch"
		}
		all = append(all, what+" "+q.Get("resourceVersion"))
	}
	s.requests = nil
	return all
}

func expect(t *testing.T, got []string, want ...string) {
	t.Helper()
	if strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A connection that breaks is taken up where it was, without a list.
func TestResume(t *testing.T) {
	onFake(t, nil, func(s *fakeServer, inf cache.Informer) {
		var r recorder
		if _, err := inf.AddEventHandler(&r); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		expect(t, s.asked(), "stream ")
		s.put("default", "c")
		synctest.Wait()
		s.cut()
		s.remove("default", "a")
		time.Sleep(time.Minute)
		expect(t, s.asked(), "watch 13")
		expect(t, r.heard(), "add a true", "add b true", "add c false", "delete a false")
	})
}

// What happened while the server forgot is seen in a list: what is gone is deleted, in a state that
// may not have been its last.
func TestForgottenHistory(t *testing.T) {
	onFake(t, nil, func(s *fakeServer, inf cache.Informer) {
		var r recorder
		if _, err := inf.AddEventHandler(&r); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		s.mu.Lock()
		s.faults = 1 // all lists fail
		s.mu.Unlock()
		s.cut()
		s.put("default", "b")
		s.remove("default", "a")
		s.put("default", "c")
		time.Sleep(time.Minute)
		s.compact()
		s.setFaults(0)
		time.Sleep(5 * time.Minute)
		expect(t, r.heard(), "add a true", "add b true", "update b false", "add c false", "delete a true")
	})
}

func TestServersWithoutStreams(t *testing.T) {
	for _, tc := range []struct {
		name    string
		prepare func(*fakeServer)
		within  time.Duration
	}{
		{"refused", func(s *fakeServer) { s.noStreams = true }, time.Second},
		{"ignored", func(s *fakeServer) { s.mute = true }, 32 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			onFake(t, tc.prepare, func(s *fakeServer, inf cache.Informer) {
				time.Sleep(tc.within)
				if !inf.HasSynced() {
					t.Error("it has not synced")
				}
				expect(t, s.asked(), "stream ", "list 0", "watch 12")
				time.Sleep(time.Minute)
				s.compact()
				s.cut()
				s.put("default", "c")
				s.compact()
				time.Sleep(time.Minute)
				for _, what := range s.asked() {
					if strings.HasPrefix(what, "stream") {
						t.Errorf("it asks again for what the server does not have")
					}
				}
			})
		})
	}
}

// A server that asks for patience gets it.
func TestRetryAfter(t *testing.T) {
	var at []time.Time
	busy := func(s *fakeServer) {
		s.onRequest = func(r *http.Request) *http.Response {
			if at = append(at, time.Now()); len(at) > 2 {
				return nil
			}
			return s.fail(r, apierrors.NewTooManyRequests("slower", 100))
		}
	}
	onFake(t, busy, func(s *fakeServer, inf cache.Informer) {
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		for i := 1; i < len(at); i++ {
			if d := at[i].Sub(at[i-1]); d < 100*time.Second {
				t.Errorf("it came again after %s", d)
			}
		}
		if len(at) != 3 || !inf.HasSynced() {
			t.Errorf("it asked %d times", len(at))
		}
	})
}

// Whatever a server does at once, it is not asked again at once.
func TestNoHotLoop(t *testing.T) {
	for _, tc := range []struct {
		name  string
		spoil func(s *fakeServer, r *http.Request) *http.Response
	}{
		{"watches end at once", func(s *fakeServer, r *http.Request) *http.Response {
			if r.URL.Query().Get("sendInitialEvents") == "" {
				return answer(r, 200, nil)
			}
			return nil
		}},
		{"watches end after a bookmark", func(s *fakeServer, r *http.Request) *http.Response {
			if r.URL.Query().Get("sendInitialEvents") == "" {
				o := configMap("", "", "")
				o.ResourceVersion = "12"
				return answer(r, 200, encodeEvent(r, "BOOKMARK", o))
			}
			return nil
		}},
		{"watches tell the same again", func(s *fakeServer, r *http.Request) *http.Response {
			if r.URL.Query().Get("sendInitialEvents") == "" {
				s.mu.Lock()
				defer s.mu.Unlock()
				return answer(r, 200, encodeEvent(r, "ADDED", s.objects["default/b"]))
			}
			return nil
		}},
		{"objects without resourceVersion", func(s *fakeServer, r *http.Request) *http.Response {
			if r.URL.Query().Get("sendInitialEvents") == "" {
				return answer(r, 200, encodeEvent(r, "ADDED", configMap("default", "x", "")))
			}
			return nil
		}},
		{"everything has expired", func(s *fakeServer, r *http.Request) *http.Response {
			return s.fail(r, apierrors.NewResourceExpired("gone"))
		}},
		{"watches have expired", func(s *fakeServer, r *http.Request) *http.Response {
			if r.URL.Query().Get("sendInitialEvents") == "" && r.URL.Query().Get("watch") != "" {
				return s.fail(r, apierrors.NewResourceExpired("gone"))
			}
			return nil
		}},
		{"garbage", func(s *fakeServer, r *http.Request) *http.Response { return answer(r, 200, []byte("<html>")) }},
		{"forbidden", func(s *fakeServer, r *http.Request) *http.Response {
			return s.fail(r, apierrors.NewForbidden(corev1.Resource("configmaps"), "", errors.New("no")))
		}},
		{"internal errors in events", func(s *fakeServer, r *http.Request) *http.Response {
			return answer(r, 200, encodeEvent(r, "ERROR", &apierrors.NewInternalError(errors.New("no")).ErrStatus))
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var repaired atomic.Bool
			prepare := func(s *fakeServer) {
				s.onRequest = func(r *http.Request) *http.Response {
					if repaired.Load() {
						return nil
					}
					return tc.spoil(s, r)
				}
			}
			onFake(t, prepare, func(s *fakeServer, inf cache.Informer) {
				var j judge
				j.objects = map[string]*corev1.ConfigMap{}
				if _, err := inf.AddEventHandler(&j); err != nil {
					t.Fatal(err)
				}
				s.cut()
				time.Sleep(time.Hour)
				// After the first, attempts of a list and a watch each are 30 to 60 seconds apart.
				if n := len(s.asked()); n > 260 {
					t.Errorf("%d requests within an hour", n)
				}
				repaired.Store(true)
				time.Sleep(2 * time.Minute)
				s.put("default", "c")
				s.remove("default", "a")
				synctest.Wait()
				j.mu.Lock()
				defer j.mu.Unlock()
				if got := fmt.Sprint(j.versions()); len(j.faults) > 0 || len(j.objects) != 2 {
					t.Errorf("got %s, %v", got, j.faults)
				}
			})
		})
	}
}

// An object that is too large for an event is got by a list.
func TestTooLargeEvent(t *testing.T) {
	prepare := func(s *fakeServer) {
		s.put("default", "large")
		s.onRequest = func(r *http.Request) *http.Response {
			if from, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion")); r.URL.Query().Get("watch") != "" && from < s.revision {
				return answer(r, 200, []byte{1, 16, 0, 0}) // the length of a frame
			}
			return nil
		}
	}
	onFake(t, prepare, func(s *fakeServer, inf cache.Informer) {
		time.Sleep(time.Minute)
		if !inf.HasSynced() {
			t.Error("it has not synced")
		}
		expect(t, s.asked(), "stream ", "list 0", "watch 13")
	})
}

// A kind that comes late is seen some seconds later.
func TestLateKind(t *testing.T) {
	var there atomic.Bool
	var asked atomic.Int64
	prepare := func(s *fakeServer) {
		s.onRequest = func(r *http.Request) *http.Response {
			if there.Load() {
				return nil
			}
			asked.Add(1)
			return s.fail(r, apierrors.NewNotFound(corev1.Resource("configmaps"), ""))
		}
	}
	onFake(t, prepare, func(s *fakeServer, inf cache.Informer) {
		time.Sleep(time.Hour)
		if n := asked.Load(); n < 350 || n > 1000 {
			t.Errorf("asked %d times in an hour", n)
		}
		there.Store(true)
		time.Sleep(10 * time.Second)
		if !inf.HasSynced() {
			t.Error("it has not synced")
		}
	})
}

// A wait that times out returns the reason why the cache has not synced.
func TestWaitInVain(t *testing.T) {
	inBubble(t, cache.Options{Mapper: fakeMapper(), Logger: slog.New(slog.DiscardHandler)}, func(w *world) {
		ctx, cancel := context.WithTimeout(w.ctx, time.Minute)
		defer cancel()
		_, err := w.cache.GetInformer(ctx, &corev1.Pod{})
		if !apierrors.IsTimeout(err) || !strings.Contains(err.Error(), `no matches for kind "Pod"`) {
			t.Errorf("got %v", err)
		}
	})
}

// A restricted informer waits for no object that it does not have.
func TestWaitForObject(t *testing.T) {
	selected := map[string]string{"value": "1"}
	opts := cache.Options{ByObject: map[client.Object]cache.ByObject{&corev1.ConfigMap{}: {
		Namespaces: map[string]cache.Config{"default": {}, "kube-system": {}}, Label: labels.SelectorFromSet(selected)}}}
	inBubble(t, opts, func(w *world) {
		inf, err := w.cache.GetInformer(w.ctx, &corev1.ConfigMap{})
		w.must(err)
		ctx, cancel := context.WithTimeout(w.ctx, time.Second)
		defer cancel()
		for _, o := range []*corev1.ConfigMap{configMap("default", "in", "1"), configMap("default", "out", "2"), configMap("kube-public", "elsewhere", "1")} {
			w.must(w.Create(ctx, o))
			w.must(inf.WaitForObject(ctx, o))
			err := w.cache.Get(ctx, client.ObjectKeyFromObject(o), &corev1.ConfigMap{})
			if (err == nil) != (o.Name == "in") {
				t.Errorf("%s: %v", o.Name, err)
			}
			if o.Name == "elsewhere" && !strings.Contains(fmt.Sprint(err), "because of unknown namespace for the cache") {
				t.Errorf("got %v", err)
			}
		}
		// It leaves.
		o := configMap("default", "in", "2")
		w.must(w.Update(ctx, o))
		w.must(inf.WaitForObject(ctx, o))
		if err := w.cache.Get(ctx, client.ObjectKeyFromObject(o), o.DeepCopy()); !apierrors.IsNotFound(err) {
			t.Errorf("got %v", err)
		}
		// Of a revision alone, an informer that hears nothing waits for bookmarks.
		long, cancel := context.WithTimeout(w.ctx, 10*time.Minute)
		defer cancel()
		w.must(inf.WaitForRevision(long, o.ResourceVersion))
		if err := inf.WaitForRevision(ctx, "999999999"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}

func TestTransform(t *testing.T) {
	for _, storage := range []cache.Storage{cache.Compact, cache.Decoded} {
		t.Run(string(storage), func(t *testing.T) {
			opts := cache.Options{DefaultTransform: cache.TransformStripManagedFields(), DefaultStorage: storage, Logger: slog.New(slog.DiscardHandler),
				DefaultNamespaces: map[string]cache.Config{"": {}, "kube-system": {Transform: func(any) (any, error) { return nil, errors.New("no") }}}}
			inBubble(t, opts, func(w *world) {
				for _, namespace := range []string{"default", "kube-system"} {
					o := configMap(namespace, "a", "1")
					w.must(w.Create(w.ctx, o))
					inf, err := w.cache.GetInformer(w.ctx, o)
					w.must(err)
					w.must(inf.WaitForObject(w.ctx, o))
					w.must(w.cache.Get(w.ctx, client.ObjectKeyFromObject(o), o))
					if stripped := o.ManagedFields == nil; stripped != (namespace == "default") || o.Data["k"] != "1" {
						t.Errorf("%s: stripped: %v", namespace, stripped)
					}
				}
			})
		})
	}
}

func TestRemoveInformer(t *testing.T) {
	inBubble(t, cache.Options{}, func(w *world) {
		w.must(w.Create(w.ctx, configMap("default", "a", "1")))
		inf, err := w.cache.GetInformer(w.ctx, &corev1.ConfigMap{})
		w.must(err)
		var r recorder
		_, err = inf.AddEventHandler(&r)
		w.must(err)
		synctest.Wait()
		w.must(w.cache.RemoveInformer(w.ctx, &corev1.ConfigMap{}))
		if !inf.IsStopped() {
			t.Error("it has not stopped")
		}
		if _, err := inf.AddEventHandler(&r); err == nil {
			t.Error("it takes handlers")
		}
		w.must(w.Create(w.ctx, configMap("default", "b", "1")))
		w.must(w.cache.Get(w.ctx, client.ObjectKey{Namespace: "default", Name: "b"}, &corev1.ConfigMap{}))
		expect(t, r.heard(), "add a true")
	})
}
