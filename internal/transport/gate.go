package transport

import (
	"net/http"
	"strings"
	"sync"
)

// gate passes requests to the handler, and tells when none is under way any more. It drops requests
// that the client has already cancelled: HTTP/2 clients can send and reset requests faster than the
// server handles them (CVE-2023-44487).
type gate struct {
	handler http.Handler
	mu      sync.Mutex
	state   gateState     // guarded by mu
	inside  int           // number of requests under way; guarded by mu
	empty   chan struct{} // closed when there are none; nil while the gate is open. Guarded by mu
}

type gateState int

const (
	gateOpen gateState = iota
	gatePostpones
	gateClosed
)

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Context().Err() != nil {
		return
	}
	switch g.enter(r) {
	case gatePostpones:
		w.Header().Set("Connection", "close") // HTTP/2: GOAWAY
		w.Header().Set("Retry-After", "5")
		http.Error(w, "The apiserver is shutting down, please try again later.", http.StatusTooManyRequests)
	case gateClosed:
		http.Error(w, "server is stopping", http.StatusServiceUnavailable)
	default:
		defer g.leave()
		g.handler.ServeHTTP(w, r)
	}
}

// enter lets a request in, or returns the state that keeps it out.
func (g *gate) enter(r *http.Request) gateState {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.state == gateClosed || g.state == gatePostpones && !probes(r) {
		return g.state
	}
	g.inside++
	return gateOpen
}

// probes reports whether a request asks how the server is.
func probes(r *http.Request) bool {
	first, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	return first == "healthz" || first == "livez" || first == "readyz" || first == "metrics"
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
	g.tell()
}

// tell closes g.empty if it is time. The caller holds mu.
func (g *gate) tell() {
	if g.inside > 0 || g.state == gateOpen {
		return
	}
	select {
	case <-g.empty: // closed before; then, there was a probe
	default:
		close(g.empty)
	}
}

// postpone rejects new requests but probes, and tells clients to try again. The channel is closed
// when all other requests have ended, unless the gate is closed before.
func (g *gate) postpone() <-chan struct{} { return g.change(gatePostpones) }

// close rejects all new requests. The channel is closed when all others have ended.
func (g *gate) close() <-chan struct{} { return g.change(gateClosed) }

func (g *gate) change(to gateState) <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.state, g.empty = to, make(chan struct{})
	g.tell()
	return g.empty
}
