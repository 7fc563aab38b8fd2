package transport

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"
	"testing/synctest"
)

// TestTakenBack checks that a request that the client has cancelled before it begins is not
// handled.
func TestTakenBack(t *testing.T) {
	g := &gate{handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the handler was called") })}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	g.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
}

// TestStop checks what clients get from a server that completes a request and then stops.
func TestStop(t *testing.T) {
	for _, retryAfter := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			finish := make(chan struct{})
			s := NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/slow" {
					<-finish
				}
			}), slog.New(slog.DiscardHandler))
			s.RetryAfter = retryAfter
			listener := NewListener()
			s.Start(listener, func() { t.Error("serving has failed") })
			get := func(path string) (*http.Response, error) {
				client := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return listener.Dial(ctx) }}
				r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://"+host+path, nil)
				if err != nil {
					return nil, err
				}
				resp, err := client.RoundTrip(r)
				if err == nil {
					_, err = io.ReadAll(resp.Body)
					resp.Body.Close()
				}
				return resp, err
			}
			slow := make(chan int)
			go func() {
				resp, err := get("/slow")
				if err != nil {
					t.Error(err)
				}
				slow <- resp.StatusCode
			}()
			synctest.Wait()
			stopped := make(chan error)
			go func() { stopped <- s.Stop(context.Background()) }()
			synctest.Wait()
			for path, want := range map[string]int{"/api/v1": http.StatusTooManyRequests, "/healthz-": http.StatusTooManyRequests, "/readyz": http.StatusOK, "/readyz/ping": http.StatusOK} {
				resp, err := get(path)
				if !retryAfter {
					if !errors.Is(err, syscall.ECONNREFUSED) {
						t.Errorf("%s: %v, want that the connection is refused", path, err)
					}
					continue
				}
				if err != nil || resp.StatusCode != want {
					t.Fatalf("%s: %v, %v, want %d", path, resp, err, want)
				}
				if want == http.StatusTooManyRequests && (resp.Header.Get("Retry-After") != "5" || !resp.Close) {
					t.Errorf("%s: headers %v", path, resp.Header)
				}
			}
			close(finish)
			if code := <-slow; code != http.StatusOK {
				t.Errorf("a request under way: %d", code)
			}
			if err := <-stopped; err != nil {
				t.Error(err)
			}
			if _, err := get("/readyz"); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("after the stop: %v", err)
			}
		})
	}
}

// TestStopInTime checks that a request that does not end is aborted.
func TestStopInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }), slog.New(slog.DiscardHandler))
		s.RetryAfter = true
		listener := NewListener()
		s.Start(listener, func() { t.Error("serving has failed") })
		client := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return listener.Dial(ctx) }}
		aborted := make(chan error)
		go func() {
			_, err := client.RoundTrip(httptest.NewRequestWithContext(context.Background(), http.MethodGet, "http://"+host+"/", nil))
			aborted <- err
		}()
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		stopped := make(chan error)
		go func() { stopped <- s.Stop(ctx) }()
		synctest.Wait()
		cancel()
		if err := <-aborted; err == nil {
			t.Error("the request was not aborted")
		}
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})
}
