package webhook

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/kapok-dev/kapok/internal/tracing"
)

// A transport sends requests to one webhook.
type transport struct {
	caller *Caller
	host   string // scheme and host
	path   string
	again  bool // calls may be repeated
	http   *http.Transport
}

func newTransport(c *Caller, h *Hook) (*transport, error) {
	host, path, err := h.location()
	if err != nil {
		return nil, err
	}
	t := &transport{caller: c, host: host.String(), path: path, again: h.config.Repeatable}
	if s := h.config.Service; s != nil {
		if dial := c.options.Inside(s.Namespace, s.Name); dial != nil {
			inside := func(ctx context.Context, _, _ string) (net.Conn, error) { return c.own(dial(ctx)) }
			t.http = &http.Transport{DialContext: inside, DialTLSContext: inside, IdleConnTimeout: 90 * time.Second, MaxIdleConnsPerHost: 25}
			return t, nil
		}
	}
	secure := &tls.Config{MinVersion: tls.VersionTLS12}
	if len(h.config.CABundle) > 0 {
		secure.RootCAs = x509.NewCertPool()
		if !secure.RootCAs.AppendCertsFromPEM(h.config.CABundle) {
			return nil, errors.New("unable to load root certificates: unable to parse bytes as PEM block")
		}
	}
	t.http = &http.Transport{
		DialContext:         c.dial,
		TLSClientConfig:     secure,
		TLSHandshakeTimeout: 10 * time.Second,
		IdleConnTimeout:     90 * time.Second,
		MaxIdleConnsPerHost: 25,
		// HTTP/2 would send all requests of a connection to one of several backends.
		ForceAttemptHTTP2: h.config.Service == nil && isHere(host),
	}
	if s := h.config.Service; s != nil {
		secure.ServerName = s.serverName()
		t.http.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
			address, err := c.options.Services.Resolve(s.Namespace, s.Name, s.Port)
			if err != nil {
				return nil, err
			}
			return c.dial(ctx, network, address)
		}
	}
	return t, nil
}

func (c *Caller) dial(ctx context.Context, network, address string) (net.Conn, error) {
	return c.own(c.options.Dial(ctx, network, address))
}

// own registers a connection that a dial returned, unless it failed.
func (c *Caller) own(conn net.Conn, err error) (net.Conn, error) {
	if err != nil {
		return nil, err
	}
	return c.conns.add(conn)
}

// RoundTrip implements http.RoundTripper. A call ends when the response's body is closed.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, end, err := t.caller.begin(r.Context())
	if err != nil {
		return nil, err
	}
	r = r.Clone(ctx)
	r.Header.Set("User-Agent", userAgent)
	tracing.Inject(ctx, r.Header)
	if t.again {
		r.Header["Idempotency-Key"] = []string{} // an empty list is not sent, but lets net/http repeat a POST
	}
	answer, err := t.http.RoundTrip(r)
	if err != nil {
		end()
		return nil, err
	}
	answer.Body = &body{ReadCloser: answer.Body, left: maxAnswer, end: end}
	return answer, nil
}

// A body is that of a response, up to a bound.
type body struct {
	io.ReadCloser
	left int64
	end  func()
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, fmt.Errorf("the response is larger than %d bytes", maxAnswer)
	}
	return n, err
}

func (b *body) Close() error {
	err := b.ReadCloser.Close()
	if b.end != nil {
		b.end()
		b.end = nil
	}
	return err
}
