package aggregate

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// A backend is a service with one way of connecting to it. It can serve several group versions.
type backend struct {
	key      backendKey
	dialer   *dialer
	resolver func(namespace, name string, port int32) (string, error)

	// plain uses HTTP/2 if the server supports it; upgrades has a connection for each request.
	plain, upgrades *http.Transport
	broken          error // why its configuration cannot be used; nil if it can
}

// A backendKey has everything that distinguishes connections.
type backendKey struct {
	namespace, name string
	port            int32
	caBundle        string
	insecure        bool
}

func keyOf(r *registration) backendKey {
	s := r.Spec.Service
	return backendKey{s.Namespace, s.Name, r.port(), string(r.Spec.CABundle), r.Spec.InsecureSkipTLSVerify}
}

// A ClientCertificate returns the certificate that identifies this server as a front proxy, which
// asserts the names of its users. It is called for each connection.
type ClientCertificate func(*tls.CertificateRequestInfo) (*tls.Certificate, error)

func newBackend(k backendKey, d *dialer, o *Options) *backend {
	b := &backend{key: k, dialer: d, resolver: o.Services.Resolve}
	secure := &tls.Config{
		MinVersion:           tls.VersionTLS12,
		ServerName:           k.name + "." + k.namespace + ".svc",
		InsecureSkipVerify:   k.insecure, // as the APIService configures
		GetClientCertificate: o.ClientCertificate,
	}
	if k.caBundle != "" {
		secure.RootCAs = x509.NewCertPool()
		if !secure.RootCAs.AppendCertsFromPEM([]byte(k.caBundle)) {
			b.broken = errors.New("unable to load root certificates: unable to parse bytes as PEM block")
		}
	}
	b.plain = d.transport(secure)
	b.plain.ForceAttemptHTTP2 = true
	b.upgrades = d.transport(secure.Clone())
	b.upgrades.DisableKeepAlives = true
	return b
}

func (d *dialer) transport(secure *tls.Config) *http.Transport {
	return &http.Transport{
		DialContext:           d.dial,
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

// resolve returns the address of the service, HOST:PORT.
func (b *backend) resolve() (string, error) {
	return b.resolver(b.key.namespace, b.key.name, b.key.port)
}

// release closes idle connections.
func (b *backend) release() {
	b.plain.CloseIdleConnections()
	b.upgrades.CloseIdleConnections()
}

// A dialer opens connections and owns them until close.
type dialer struct {
	with func(ctx context.Context, network, address string) (net.Conn, error)
	ctx  context.Context // cancels dials under way
	stop context.CancelFunc

	mu   sync.Mutex
	open map[net.Conn]struct{} // nil once closed
}

var errClosed = errors.New("the server is shutting down")

func newDialer(with func(ctx context.Context, network, address string) (net.Conn, error)) *dialer {
	if with == nil {
		with = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	}
	d := &dialer{with: with, open: map[net.Conn]struct{}{}}
	d.ctx, d.stop = context.WithCancel(context.Background())
	return d
}

func (d *dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
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

// close closes all connections, and cancels dials under way.
func (d *dialer) close() {
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
	dialer *dialer
}

func (o *owned) Close() error {
	o.dialer.mu.Lock()
	delete(o.dialer.open, o.Conn)
	o.dialer.mu.Unlock()
	return o.Conn.Close()
}

func (k backendKey) String() string { return fmt.Sprintf("%s/%s:%d", k.namespace, k.name, k.port) }
