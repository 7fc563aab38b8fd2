package transport

import (
	"context"
	"log/slog"
	"net"
	"net/http"

	"k8s.io/client-go/rest"
)

// InProcess serves clients in this process: plain HTTP/1.1 over pipes. A request under way, such as
// a watch, has its own connection; idle connections are kept for later requests.
//
// It is the http.RoundTripper of its clients, and safe for concurrent use.
type InProcess struct {
	server    *Server
	listener  *Listener
	transport *http.Transport
}

// ServeInProcess starts to serve a handler. connContext derives the context of each connection. The
// caller must call Stop.
func ServeInProcess(h http.Handler, log *slog.Logger, connContext func(context.Context) context.Context) *InProcess {
	in := &InProcess{server: NewServer(h, log), listener: NewListener()}
	in.server.ConnContext = func(ctx context.Context, _ net.Conn) context.Context { return connContext(ctx) }
	in.transport = &http.Transport{
		DialContext:         in.DialContext,
		MaxIdleConnsPerHost: 64,
		DisableCompression:  true, // there is no network to save
	}
	in.server.Start(in.listener, func() {}) // pipes do not fail
	return in
}

// Config returns a configuration for clients, without a rate limit.
func (in *InProcess) Config() *rest.Config {
	return &rest.Config{Host: "http://" + host, Transport: in, QPS: -1}
}

// RoundTrip implements http.RoundTripper. After Refuse, all requests get the same error, with and
// without an idle connection, and with and without a live context.
func (in *InProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	if in.listener.isClosed() {
		if r.Body != nil {
			r.Body.Close()
		}
		return nil, Refused()
	}
	return in.transport.RoundTrip(r)
}

// CloseIdleConnections implements the interface that http.Client's method of the same name expects.
func (in *InProcess) CloseIdleConnections() { in.transport.CloseIdleConnections() }

// DialContext opens a connection, and ignores the address. It is for transports of tests that delay
// and break connections.
func (in *InProcess) DialContext(ctx context.Context, _, _ string) (net.Conn, error) {
	return in.listener.Dial(ctx)
}

// Refuse rejects new requests. Those under way continue.
func (in *InProcess) Refuse() { in.listener.Close() }

// Stop waits until ctx is done for requests under way, and then aborts them.
func (in *InProcess) Stop(ctx context.Context) {
	_ = in.server.Stop(ctx) // pipes do not fail
	in.transport.CloseIdleConnections()
}
