package server

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

const adminInside = "kubernetes-admin [system:masters system:authenticated] over HTTP/1.1"

// TestConfig checks that all settings of a rest.Config except TLS work in process.
func TestConfig(t *testing.T) {
	leakFree(t)
	s := start(t, newEcho().options())
	for _, tc := range []struct {
		name   string
		change func(*rest.Config)
		code   int
		body   string
	}{
		{"as it is", func(*rest.Config) {}, 200, adminInside},
		{"impersonating", func(c *rest.Config) {
			c.Impersonate = rest.ImpersonationConfig{UserName: "bob", Groups: []string{"dev"}}
		},
			200, "bob [dev system:authenticated] over HTTP/1.1"},
		{"wrong token", func(c *rest.Config) { c.BearerToken = "x" }, 401, `"message":"Unauthorized"`},
		{"wrapped", func(c *rest.Config) {
			c.Wrap(func(next http.RoundTripper) http.RoundTripper {
				return roundTripper(func(r *http.Request) (*http.Response, error) {
					r = r.Clone(r.Context())
					r.Header.Set("Impersonate-User", "wrapped")
					return next.RoundTrip(r)
				})
			})
		}, 200, "wrapped [system:authenticated] over HTTP/1.1"},
		{"with a timeout", func(c *rest.Config) { c.Timeout = time.Minute }, 200, adminInside},
		{"copied", func(c *rest.Config) { *c = *rest.CopyConfig(c) }, 200, adminInside},
	} {
		t.Run(tc.name, func(t *testing.T) {
			config := s.Config()
			tc.change(config)
			code, body := get(t, client(t, config), config.Host+"/who")
			if code != tc.code || !strings.Contains(body, tc.body) {
				t.Errorf("got %d %s", code, body)
			}
		})
	}
	if qps := s.Config().QPS; qps != -1 {
		t.Errorf("QPS is %v", qps)
	}
	if s.Address() != "" || s.Kubeconfig() != nil {
		t.Errorf("without a socket, the address is %q and the kubeconfig %q", s.Address(), s.Kubeconfig())
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestBubble keeps a watch open for a day of virtual time. Stop must leave no goroutine:
// synctest.Test waits for all of them.
func TestBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEcho()
		s, err := e.options().start(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		config := s.Config()
		c := client(t, config)
		watch, err := c.Get(config.Host + "/watch")
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		for range 24 {
			time.Sleep(time.Hour)
			if code, body := get(t, c, config.Host+"/who"); code != 200 || body != adminInside {
				t.Fatalf("got %d %s", code, body)
			}
		}
		if d := time.Since(begin); d != 24*time.Hour {
			t.Errorf("the day took %v", d)
		}
		begin = time.Now()
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
		if d := time.Since(begin); d > time.Second {
			t.Errorf("Stop took %v", d)
		}
		if body, err := io.ReadAll(watch.Body); err != nil || string(body) != "end" {
			t.Errorf("the watch did not end cleanly: %q, %v", body, err)
		}
		watch.Body.Close()
		if !e.closedLast() {
			t.Error("the handler was closed while requests were under way")
		}
		if _, err := c.Get(config.Host + "/who"); err == nil {
			t.Error("a stopped server responds")
		}
	})
}

// TestManyServers checks that servers in one process are independent.
func TestManyServers(t *testing.T) {
	leakFree(t)
	var servers []*Server
	for range 20 {
		servers = append(servers, start(t, newEcho().options()))
	}
	for i, s := range servers {
		if err := s.Stop(); err != nil {
			t.Fatal(err)
		}
		for j, other := range servers {
			config := other.Config()
			r, err := client(t, config).Get(config.Host + "/who")
			if running := j > i; (err == nil) != running {
				t.Fatalf("after %d stops, server %d: %v", i+1, j, err)
			}
			if err == nil {
				r.Body.Close()
			}
		}
	}
}

// TestStopWithUnusedConnection checks that Stop does not wait for a connection that carries no
// request.
func TestStopWithUnusedConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, newEcho().options())
		conn, err := s.inProcess.DialContext(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		synctest.Wait()
		begin := time.Now()
		s.Stop()
		if d := time.Since(begin); d > 100*time.Millisecond {
			t.Errorf("Stop took %v", d)
		}
	})
}

func TestContextStopsServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s, err := newEcho().options().start(ctx)
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		if err := s.Wait(); err != nil {
			t.Error(err)
		}
		if err := s.Stop(); err != nil { // once more
			t.Error(err)
		}
	})
}

// TestServerOutlivesContext checks that clients with the server's context can still send their last
// requests when it is cancelled. A Stop in the meantime does not wait for them, and leaves no
// goroutine.
func TestServerOutlivesContext(t *testing.T) {
	for _, stop := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			s, err := newEcho().options().start(ctx)
			if err != nil {
				t.Fatal(err)
			}
			config := s.Config()
			c := client(t, config)
			cancel()
			synctest.Wait()
			if code, body := get(t, c, config.Host+"/who"); code != 200 {
				t.Errorf("got %d %s", code, body)
			}
			begin, end := time.Now(), s.Wait
			if stop {
				end = s.Stop
			}
			if err := end(); err != nil {
				t.Error(err)
			}
			if d := time.Since(begin); (d < courtesy) != stop || d >= 2*courtesy {
				t.Errorf("stopped after %v", d)
			}
		})
	}
}

// lastGasp is a handler that calls a function before it ends watches.
type lastGasp struct {
	*echo
	gasp func()
}

func (l *lastGasp) EndWatches() {
	l.gasp()
	l.echo.EndWatches()
}

// TestStoppingServerRefuses checks that clients of a stopping server get "connection refused", even
// before it ends watches: with and without a kept connection, with a live and with a cancelled
// context.
func TestStoppingServerRefuses(t *testing.T) {
	leakFree(t)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	asked := 0
	var s *Server
	ask := func(ctx context.Context) {
		t.Helper()
		asked++
		config := s.Config()
		body := &closer{Reader: strings.NewReader("x")}
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, config.Host+"/who", body)
		if err != nil {
			t.Error(err)
			return
		}
		response, err := client(t, config).Do(r)
		if !utilnet.IsConnectionRefused(err) {
			t.Errorf("got %v, %v", response, err)
		}
		if !body.closed {
			t.Error("the request's body was left open")
		}
	}
	h := &lastGasp{newEcho(), func() {
		ask(t.Context())
		ask(gone)
	}}
	options := h.options()
	build := options.newHandler
	options.newHandler = func(ctx context.Context, p parts) (handler, error) {
		_, err := build(ctx, p)
		return h, err
	}
	s = start(t, options)
	config := s.Config()
	get(t, client(t, config), config.Host+"/who") // keeps a connection
	s.Stop()
	ask(t.Context())
	if _, err := s.inProcess.DialContext(t.Context(), "", ""); !utilnet.IsConnectionRefused(err) {
		t.Errorf("dial: %v", err)
	}
	if asked != 3 {
		t.Errorf("%d requests", asked)
	}
}

type closer struct {
	io.Reader
	closed bool
}

func (c *closer) Close() error {
	c.closed = true
	return nil
}

// TestInformerOutlivesServer checks that an informer of a stopped server waits for its return,
// reports no error, and can be stopped at any time.
func TestInformerOutlivesServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, Options{})
		clients, err := kubernetes.NewForConfig(s.Config())
		if err != nil {
			t.Fatal(err)
		}
		factory := informers.NewSharedInformerFactory(clients, 0)
		informer := factory.Core().V1().ConfigMaps().Informer()
		if err := informer.SetWatchErrorHandler(func(_ *cache.Reflector, err error) {
			t.Errorf("the informer reports %v", err)
		}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		factory.Start(ctx.Done())
		cache.WaitForCacheSync(ctx.Done(), informer.HasSynced)
		time.Sleep(time.Minute) // an informer reports a watch that ends in its first second
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		begin := time.Now()
		cancel()
		factory.Shutdown()
		if d := time.Since(begin); d != 0 {
			t.Errorf("the informer took %v to stop", d)
		}
	})
}

// TestShutdownHurries checks that a request that does not end is aborted, by default after ten
// seconds.
func TestShutdownHurries(t *testing.T) {
	for _, tc := range []struct {
		name string
		stop func(*Server) error
		want time.Duration
	}{
		{"stop", (*Server).Stop, drainTime},
		{"shutdown", func(s *Server) error {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			return s.Shutdown(ctx)
		}, time.Minute},
		{"a second stop hurries the first", func(s *Server) error {
			go s.Shutdown(context.Background())
			return s.Stop()
		}, drainTime},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEcho()
				s := start(t, e.options())
				config := s.Config()
				answered := make(chan error)
				go func() {
					_, err := client(t, config).Get(config.Host + "/hang")
					answered <- err
				}()
				<-e.hangs
				begin := time.Now()
				if err := tc.stop(s); err != nil {
					t.Error(err)
				}
				if d := time.Since(begin); d < tc.want || d > tc.want+time.Second {
					t.Errorf("stopped after %v, want %v", d, tc.want)
				}
				if err := <-answered; err == nil {
					t.Error("the request succeeded")
				}
				if !e.closedLast() {
					t.Error("the handler was closed while requests were under way")
				}
			})
		})
	}
}

func BenchmarkStartStop(b *testing.B) {
	for b.Loop() {
		s, err := Start(b.Context(), Options{})
		if err != nil {
			b.Fatal(err)
		}
		s.Stop()
	}
}

func BenchmarkInside(b *testing.B) {
	s, err := newEcho().options().start(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	defer s.Stop()
	config := s.Config()
	c, err := rest.HTTPClientFor(config)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		r, err := c.Get(config.Host + "/who")
		if err != nil {
			b.Fatal(err)
		}
		r.Body.Close()
	}
}
