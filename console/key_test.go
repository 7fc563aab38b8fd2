package console

import (
	"context"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
)

// TestWebSockets checks which requests for a WebSocket reach the API with the session's rights.
func TestWebSockets(t *testing.T) {
	b := newBrowser(t, Options{})
	if code := b.redeem(b.link()); code != http.StatusCreated {
		t.Fatal(code)
	}
	b.console.opts.API = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Header.Get("Authorization")+"|"+r.Header.Get(protocols))
	})
	set := func(name string, values ...string) func(*http.Request) {
		return func(r *http.Request) {
			r.Header.Del(name)
			for _, value := range values {
				r.Header.Add(name, value)
			}
		}
	}
	key := Protocol + b.key
	for _, tc := range []struct {
		name   string
		change []func(*http.Request)
		code   int
		body   string // that the API sees; "" if it sees nothing
	}{
		{"the page", []func(*http.Request){set(protocols, "v5.channel.k8s.io, "+key+", v4.channel.k8s.io")}, 200, "Bearer secret|v5.channel.k8s.io, v4.channel.k8s.io"},
		{"without spaces", []func(*http.Request){set(protocols, key+",v4.channel.k8s.io")}, 200, "Bearer secret|v4.channel.k8s.io"},
		{"two lines", []func(*http.Request){set(protocols, "v5.channel.k8s.io", key)}, 200, "Bearer secret|v5.channel.k8s.io"},
		{"the key alone", []func(*http.Request){set(protocols, key)}, 200, "Bearer secret|"},
		{"upper case", []func(*http.Request){set(protocols, key), set("Upgrade", "WebSocket")}, 200, "Bearer secret|"},
		{"the cookie alone", []func(*http.Request){set(protocols, "v5.channel.k8s.io")}, 200, "|v5.channel.k8s.io"},
		{"no upgrade", []func(*http.Request){set(protocols, key), set("Upgrade")}, 200, "|" + key},
		{"another origin", []func(*http.Request){set(protocols, key), set("Origin", "https://evil.example")}, 403, ""},
		{"another port", []func(*http.Request){set(protocols, key), set("Origin", "https://127.0.0.1:9999")}, 403, ""},
		{"http", []func(*http.Request){set(protocols, key), set("Origin", "http://"+own)}, 403, ""},
		{"an origin that is not shown", []func(*http.Request){set(protocols, key), set("Origin", "null")}, 403, ""},
		{"no origin", []func(*http.Request){set(protocols, key), set("Origin")}, 403, ""},
		{"another site", []func(*http.Request){set(protocols, key), set("Sec-Fetch-Site", "same-site")}, 403, ""},
		{"a name of an attacker", []func(*http.Request){set(protocols, key), func(r *http.Request) { r.Host = "evil.example" }}, 403, ""},
		{"a wrong key", []func(*http.Request){set(protocols, Protocol+"AAAA")}, 401, ""},
		{"a wrong key before the right one", []func(*http.Request){set(protocols, Protocol+"AAAA", key)}, 401, ""},
		{"no cookie", []func(*http.Request){set(protocols, key), set("Cookie")}, 401, ""},
	} {
		all := append([]func(*http.Request){set(Header), set("Upgrade", "websocket"), set("Connection", "Upgrade")}, tc.change...)
		resp := b.send("GET", "/api/v1/namespaces/a/pods/b/exec", "", all...)
		got := text(t, resp)
		if resp.StatusCode != tc.code {
			t.Errorf("%s: %d, want %d: %s", tc.name, resp.StatusCode, tc.code, got)
		}
		if tc.code == 200 && got != tc.body {
			t.Errorf("%s: the API sees %q, want %q", tc.name, got, tc.body)
		}
	}
	closed := New(Options{API: b.console.opts.API, Closed: true})
	c := &browser{t: t, console: closed}
	resp := c.send("GET", "/api/v1/namespaces/a/pods/b/exec", "", set(Header), set("Upgrade", "websocket"), set(protocols, "v5.channel.k8s.io"))
	if resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a key, of an API with credentials: %d, want 401", resp.StatusCode)
	}
}

// TestWebSocketsEnd checks that a WebSocket ends with its session.
func TestWebSocketsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBrowser(t, Options{})
		b.redeem(b.link())
		running, ended := make(chan struct{}), make(chan context.Context, 1)
		b.console.opts.API = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			close(running)
			<-r.Context().Done()
			ended <- r.Context()
		})
		go b.send("GET", "/api/v1/namespaces/a/pods/b/exec", "", func(r *http.Request) {
			r.Header.Del(Header)
			r.Header.Set("Upgrade", "websocket")
			r.Header.Set(protocols, Protocol+b.key)
		})
		<-running
		synctest.Wait()
		if len(ended) != 0 {
			t.Fatal("the WebSocket has ended with the session running")
		}
		b.send("DELETE", "/console/session", "")
		<-ended
	})
}
