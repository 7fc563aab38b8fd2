package server

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestFront checks that Options.Front sees the requests of the socket, and no others.
func TestFront(t *testing.T) {
	leakFree(t)
	opts := newEcho().options()
	opts.Listen = anyPort
	opts.Front = func(api http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/page" {
				_, _ = io.WriteString(w, "a page")
				return
			}
			api.ServeHTTP(w, r)
		})
	}
	s := start(t, opts)
	config := adminConfig(t, s)
	config.CertData, config.KeyData, config.BearerToken = nil, nil, s.Token()
	outside := client(t, config)
	defer outside.CloseIdleConnections()
	if code, body := get(t, outside, config.Host+"/page"); code != 200 || body != "a page" {
		t.Errorf("the page: %d %s", code, body)
	}
	if code, body := get(t, outside, config.Host+"/"); code != 200 || !strings.HasPrefix(body, "kubernetes-admin ") {
		t.Errorf("the API behind it, with Token: %d %s", code, body)
	}
	inside := client(t, s.Config())
	defer inside.CloseIdleConnections()
	if _, body := get(t, inside, s.Config().Host+"/page"); body == "a page" {
		t.Error("a connection in the process passes Front")
	}

	without := Options{Front: opts.Front}
	if _, err := Start(context.Background(), without); err == nil || !strings.Contains(err.Error(), "Options.Front is set but Options.Listen is not") {
		t.Errorf("Front without a socket: %v", err)
	}
}
