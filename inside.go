package kapok

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"syscall"

	"github.com/kapok-dev/kapok/internal/auth"

	"k8s.io/client-go/rest"
)

// inside is the door for clients in this process: plain HTTP/1.1 over pipes. A
// request that is under way, such as a watch, has a connection to itself; idle
// ones are kept for the next request.
type inside struct {
	server    *httpServer
	pipes     *pipes
	transport *http.Transport
}

// insideHost is the host of URLs that are never looked up.
const insideHost = "kapok"

func serveInside(h http.Handler, log *slog.Logger) *inside {
	in := &inside{server: newHTTPServer(h, log), pipes: newPipes()}
	in.server.ConnContext = func(ctx context.Context, _ net.Conn) context.Context { return auth.InProcessContext(ctx) }
	in.transport = &http.Transport{
		DialContext:         in.pipes.dial,
		MaxIdleConnsPerHost: 64,
		DisableCompression:  true, // bytes that travel nowhere
	}
	in.server.start(in.pipes, func() {}) // pipes do not fail
	return in
}

func (in *inside) config() *rest.Config {
	return &rest.Config{Host: "http://" + insideHost, Transport: in, QPS: -1}
}

// RoundTrip implements http.RoundTripper. It asks the door before anything else,
// and so has one answer for all who come too late, whether or not they have a
// connection left, and whether or not they have given up meanwhile.
func (in *inside) RoundTrip(r *http.Request) (*http.Response, error) {
	if in.pipes.isClosed() {
		if r.Body != nil {
			r.Body.Close()
		}
		return nil, refused()
	}
	return in.transport.RoundTrip(r)
}

// CloseIdleConnections is for the method of http.Client.
func (in *inside) CloseIdleConnections() { in.transport.CloseIdleConnections() }

// refuse shuts the door: requests that are under way go on, none is added.
func (in *inside) refuse() { in.pipes.Close() }

// refused is what the system says of an address where nobody listens. Clients know
// it: an informer waits and resumes its watch, where any other error makes it
// complain and list anew.
func refused() error {
	return &net.OpError{Op: "dial", Net: pipeAddr{}.Network(), Addr: pipeAddr{}, Err: syscall.ECONNREFUSED}
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
	return p.connect(ctx, func(server net.Conn) net.Conn { return server })
}

// connect opens a connection whose other end is accepted as wrap returns it.
func (p *pipes) connect(ctx context.Context, wrap func(net.Conn) net.Conn) (net.Conn, error) {
	client, server := newPipe()
	select {
	case p.accepted <- wrap(server):
		return client, nil
	case <-p.closed:
		return nil, refused()
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

func (p *pipes) isClosed() bool {
	select {
	case <-p.closed:
		return true
	default:
		return false
	}
}

// Addr implements net.Listener.
func (p *pipes) Addr() net.Addr { return pipeAddr{} }
