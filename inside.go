package kapok

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync"

	"github.com/kapok-dev/kapok/internal/auth"

	"k8s.io/client-go/rest"
)

// inside is the door for clients in this process: plain HTTP/1.1 over pipes. A
// request that is under way, such as a watch, has a connection to itself; idle
// ones are kept for the next request.
type inside struct {
	server    *httpServer
	transport *http.Transport
}

// insideHost is the host of URLs that are never looked up.
const insideHost = "kapok"

func serveInside(h http.Handler, log *slog.Logger) *inside {
	pipes := newPipes()
	in := &inside{server: newHTTPServer(h, log)}
	in.server.ConnContext = func(ctx context.Context, _ net.Conn) context.Context { return auth.InProcessContext(ctx) }
	in.transport = &http.Transport{
		DialContext:         pipes.dial,
		MaxIdleConnsPerHost: 64,
		DisableCompression:  true, // bytes that travel nowhere
	}
	in.server.start(pipes, func() {}) // pipes do not fail
	return in
}

func (in *inside) config() *rest.Config {
	return &rest.Config{Host: "http://" + insideHost, Transport: in.transport, QPS: -1}
}

// stop takes its time until ctx is done.
func (in *inside) stop(ctx context.Context) {
	in.server.stop(ctx)
	in.transport.CloseIdleConnections()
}

// pipes is a listener whose connections are made in memory. It is made of
// nothing but what belongs to it, so that it works in a synctest bubble.
type pipes struct {
	accepted chan net.Conn
	once     sync.Once
	closed   chan struct{}
}

func newPipes() *pipes {
	return &pipes{accepted: make(chan net.Conn), closed: make(chan struct{})}
}

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := newPipe()
	select {
	case p.accepted <- server:
		return client, nil
	case <-p.closed:
		return nil, http.ErrServerClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements net.Listener.
func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.accepted:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

// Addr implements net.Listener.
func (p *pipes) Addr() net.Addr { return pipeAddr{} }
