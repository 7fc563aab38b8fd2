package forward

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"
)

// Dial opens a connection, as net.Dialer.DialContext does.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// A Dialer opens connections and owns them until Close. It is safe for concurrent use.
type Dialer struct {
	with Dial
	ctx  context.Context // cancels dials under way
	stop context.CancelFunc

	mu   sync.Mutex
	open map[net.Conn]struct{} // nil once closed
}

var errClosed = errors.New("the server is shutting down")

// NewDialer returns a Dialer. Default of with: connections of the operating system.
func NewDialer(with Dial) *Dialer {
	if with == nil {
		with = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	}
	d := &Dialer{with: with, open: map[net.Conn]struct{}{}}
	d.ctx, d.stop = context.WithCancel(context.Background())
	return d
}

// DialContext opens a connection.
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(d.ctx, cancel)()
	conn, err := d.with(ctx, network, address)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.open == nil {
		conn.Close()
		return nil, errClosed
	}
	d.open[conn] = struct{}{}
	return &owned{conn, d}, nil
}

// Close closes all connections, and cancels dials under way.
func (d *Dialer) Close() {
	d.stop()
	d.mu.Lock()
	open := d.open
	d.open = nil
	d.mu.Unlock()
	for conn := range open {
		conn.Close()
	}
}

type owned struct {
	net.Conn
	dialer *Dialer
}

func (o *owned) Close() error {
	o.dialer.mu.Lock()
	delete(o.dialer.open, o.Conn)
	o.dialer.mu.Unlock()
	return o.Conn.Close()
}

// Transports are the transports for one kind of server: Plain uses HTTP/2 if the server supports
// it, Upgrades has a connection for each request.
type Transports struct{ Plain, Upgrades *http.Transport }

// Transports returns transports over connections of the dialer. They ignore the proxies that the
// environment names. The configuration belongs to them.
func (d *Dialer) Transports(secure *tls.Config) Transports {
	t := Transports{Plain: d.transport(secure), Upgrades: d.transport(secure.Clone())}
	t.Plain.ForceAttemptHTTP2 = true
	t.Upgrades.DisableKeepAlives = true
	return t
}

func (d *Dialer) transport(secure *tls.Config) *http.Transport {
	return &http.Transport{
		DialContext:           d.DialContext,
		TLSClientConfig:       secure,
		TLSHandshakeTimeout:   10 * time.Second,
		ExpectContinueTimeout: time.Second,
		IdleConnTimeout:       90 * time.Second,
		MaxIdleConnsPerHost:   25,
		DisableCompression:    true, // the client chooses the encodings that it accepts
		// A server that is gone without closing the connection is detected after 45 seconds, as in
		// client-go.
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second},
		MaxResponseHeaderBytes: 1 << 20,
	}
}

// For returns the transport for a request.
func (t Transports) For(r *http.Request) *http.Transport {
	if IsUpgrade(r) {
		return t.Upgrades
	}
	return t.Plain
}

// CloseIdle closes idle connections.
func (t Transports) CloseIdle() {
	t.Plain.CloseIdleConnections()
	t.Upgrades.CloseIdleConnections()
}
