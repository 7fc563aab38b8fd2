package webhook

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"sync"
	"testing"
)

// A memory is a listener for connections in memory, for use in bubbles.
type memory struct {
	accepted chan net.Conn
	closed   chan struct{}
	once     sync.Once
}

func newMemory() *memory { return &memory{accepted: make(chan net.Conn), closed: make(chan struct{})} }

func (m *memory) Accept() (net.Conn, error) {
	select {
	case c := <-m.accepted:
		return c, nil
	case <-m.closed:
		return nil, net.ErrClosed
	}
}

func (m *memory) Close() error {
	m.once.Do(func() { close(m.closed) })
	return nil
}

func (m *memory) Addr() net.Addr  { return m }
func (m *memory) Network() string { return "memory" }
func (m *memory) String() string  { return "memory" }

func (m *memory) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case m.accepted <- server:
		return client, nil
	case <-m.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// shake performs a handshake, and returns the server's certificate. A nil pool accepts any.
func (m *memory) shake(ctx context.Context, host string, roots *x509.CertPool) (*x509.Certificate, error) {
	raw, err := m.dial(ctx, "", "")
	if err != nil {
		return nil, err
	}
	conn := tls.Client(raw, &tls.Config{ServerName: host, RootCAs: roots, InsecureSkipVerify: roots == nil, NextProtos: []string{"http/1.1"}})
	defer raw.Close() // not conn, whose close notification could block
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	return conn.ConnectionState().PeerCertificates[0], nil
}

// run starts a server, and returns a function that stops it and one that waits for its end.
func run(t *testing.T, s Server) (stop context.CancelFunc, wait func() error) {
	ctx, cancel := context.WithCancel(silent(context.Background()))
	ended := make(chan error, 1)
	go func() { ended <- s.Start(ctx) }()
	wait = sync.OnceValue(func() error { return <-ended })
	t.Cleanup(func() {
		cancel()
		wait()
	})
	return cancel, wait
}

// trusting returns a client that trusts a CA bundle.
func trusting(t *testing.T, bundle []byte, dial func(context.Context, string, string) (net.Conn, error)) *http.Client {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(bundle) {
		t.Fatalf("no certificate in %s", bundle)
	}
	transport := &http.Transport{DialContext: dial, TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}
