// Package forward passes requests on to other servers: to those that serve an API group, to
// kubelets, pods and services.
//
// A [Proxy] passes on one request. Credentials of the client never reach the other server, and the
// connection of a request that asks for another protocol (Upgrade) is passed through in both
// directions, until one side closes it or the context of the request ends; both sides are closed
// then. A [Dialer] opens connections and owns them.
//
// A Proxy has no lock. It starts the goroutines of [httputil.ReverseProxy], which end with the
// connections that they copy.
package forward

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"

	"github.com/kapok-dev/kapok/internal/tracing"
)

// ErrEnding is the cancellation cause of a request whose streamed response must end as if it were
// complete.
var ErrEnding = errors.New("the server ends its streams")

// A Proxy passes one request on.
type Proxy struct {
	// Transport sends the request.
	Transport http.RoundTripper
	// Rewrite sets the URL of the outgoing request. Its header has no credentials of the client.
	Rewrite func(*httputil.ProxyRequest)
	// Receive may change a response before it is passed back, or reject it with an error. Nil accepts
	// all.
	Receive func(*http.Response) error
	// Fail responds to a request that has got no response, or one that was rejected. It is not called
	// once the connection of the client has been taken over.
	Fail func(error)
}

// ServeHTTP implements http.Handler. It returns when the response is complete, or both connections
// are closed.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &exchange{Proxy: p, own: w.Header().Clone(), upgrade: IsUpgrade(r)}
	x.client = &client{ResponseWriter: w, ctx: r.Context()}
	(&httputil.ReverseProxy{
		Transport: p.Transport,
		Rewrite: func(q *httputil.ProxyRequest) {
			ClearCredentials(q.Out.Header)
			addForwarded(q)
			tracing.Inject(q.Out.Context(), q.Out.Header)
			p.Rewrite(q)
		},
		FlushInterval:  -1, // events and lines of logs must not wait for further bytes
		ModifyResponse: x.receive,
		ErrorHandler:   func(_ http.ResponseWriter, _ *http.Request, err error) { x.fail(err) },
		ErrorLog:       log.New(io.Discard, "", 0), // drops errors about connections that either side closed
	}).ServeHTTP(x.client, r)
}

// An exchange is a request that is being passed on.
type exchange struct {
	*Proxy
	client  *client
	own     http.Header // of the response, set before the exchange
	upgrade bool
}

// restore sets the headers of this server again: ReverseProxy clears all headers after it has
// passed on an informational response.
func (x *exchange) restore() {
	header := x.client.Header()
	for name, values := range x.own {
		if header[name] == nil {
			header[name] = values
		}
	}
}

func (x *exchange) fail(err error) {
	if x.client.taken {
		return
	}
	x.restore()
	x.Fail(err)
}

// receive checks a response, and removes the headers that this server sets itself.
func (x *exchange) receive(answer *http.Response) error {
	x.restore()
	if x.Receive != nil {
		if err := x.Receive(answer); err != nil {
			return err
		}
	}
	code := answer.StatusCode
	switched := code == http.StatusSwitchingProtocols
	if switched && !x.upgrade || x.upgrade && !switched && code < 400 {
		return fmt.Errorf("invalid upgrade response: status code %d", code)
	}
	for name := range answer.Header {
		if strings.HasPrefix(name, "Access-Control-") {
			delete(answer.Header, name)
		}
	}
	own := x.client.Header()
	answer.Header.Del("Audit-Id") // this server's value is the same
	if answer.Header.Get("Cache-Control") != "" {
		own.Del("Cache-Control")
	}
	if !switched {
		answer.Body = &stream{answer.Body, answer.Request.Context()}
		return nil
	}
	if connection, ok := answer.Body.(io.ReadWriteCloser); ok {
		answer.Body = whole{connection}
	}
	return nil
}

// whole is a connection that cannot be closed in one direction only: when one side has ended, both
// are closed, since the other one might never end.
type whole struct{ io.ReadWriteCloser }

// A stream is the body of a response, which ends with io.EOF if the request is cancelled with
// ErrEnding.
type stream struct {
	io.ReadCloser
	ctx context.Context
}

func (s *stream) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	if err != nil && context.Cause(s.ctx) == ErrEnding {
		err = io.EOF
	}
	return n, err
}

// client is the response to the client of an exchange.
type client struct {
	http.ResponseWriter
	ctx   context.Context
	taken bool // the connection was taken over from net/http
}

// Unwrap implements the interface that http.ResponseController looks for.
func (c *client) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// Hijack implements http.Hijacker. The connection is closed when the context ends: ReverseProxy
// closes only that of the other server then, and a client that does not read would block it.
func (c *client) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(c.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	c.taken = true
	release := context.AfterFunc(c.ctx, func() { conn.Close() })
	return &taken{conn, buffered.Reader, release}, buffered, nil
}

// taken is a connection that was taken over. It reads first what net/http has read ahead.
type taken struct {
	net.Conn
	ahead   *bufio.Reader
	release func() bool
}

func (t *taken) Read(p []byte) (int, error) {
	if n := t.ahead.Buffered(); n > 0 {
		return t.ahead.Read(p[:min(n, len(p))])
	}
	return t.Conn.Read(p)
}

func (t *taken) Close() error {
	t.release()
	return t.Conn.Close()
}

// IsUpgrade reports whether a request asks for another protocol.
func IsUpgrade(r *http.Request) bool {
	if r.Header.Get("Upgrade") == "" {
		return false
	}
	for _, list := range r.Header["Connection"] {
		for option := range strings.SplitSeq(list, ",") {
			if strings.EqualFold(strings.TrimSpace(option), "upgrade") {
				return true
			}
		}
	}
	return false
}

// addForwarded appends the address of the client to the header that lists the clients of proxies.
func addForwarded(q *httputil.ProxyRequest) {
	client, _, err := net.SplitHostPort(q.In.RemoteAddr)
	if err != nil {
		return
	}
	if before := q.In.Header["X-Forwarded-For"]; len(before) > 0 {
		client = strings.Join(before, ", ") + ", " + client
	}
	q.Out.Header.Set("X-Forwarded-For", client)
}
