package forward

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"sync"
	"testing"
	"testing/synctest"
)

// A switched is a response of a server that switches protocols, with the connection to it.
type switched struct {
	read   func(p []byte) (int, error)
	closed chan struct{}
	once   sync.Once
}

func (s *switched) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusSwitchingProtocols, ProtoMajor: 1, ProtoMinor: 1, Request: r, Body: s,
		Header: http.Header{"Connection": {"Upgrade"}, "Upgrade": {"x"}},
	}, nil
}

func (s *switched) Read(p []byte) (int, error) {
	select {
	case <-s.closed:
		return 0, io.ErrClosedPipe
	default:
		return s.read(p)
	}
}

func (s *switched) Write([]byte) (int, error) {
	<-s.closed
	return 0, io.ErrClosedPipe
}

func (s *switched) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

// hijackable is a response whose connection can be taken over.
type hijackable struct {
	*httptest.ResponseRecorder
	conn net.Conn
}

func (h *hijackable) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return h.conn, bufio.NewReadWriter(bufio.NewReader(h.conn), bufio.NewWriter(h.conn)), nil
}

// pass passes a request for another protocol on, and returns when both connections are closed.
func pass(ctx context.Context, to *switched, client net.Conn, fail func(error)) {
	r := httptest.NewRequestWithContext(ctx, "GET", "/", nil)
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", "x")
	(&Proxy{Transport: to, Rewrite: func(*httputil.ProxyRequest) {}, Fail: fail}).ServeHTTP(&hijackable{httptest.NewRecorder(), client}, r)
}

// TestContextEndsBothSides ends the context of an upgraded connection that neither side reads.
func TestContextEndsBothSides(t *testing.T) {
	sends := func(_ *switched, p []byte) (int, error) { return len(p), nil }
	silent := func(s *switched, _ []byte) (int, error) {
		<-s.closed
		return 0, io.ErrClosedPipe
	}
	for name, read := range map[string]func(*switched, []byte) (int, error){
		"only the server sends": sends, "both send": sends, "only the client sends": silent, "both are silent": silent,
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			to := &switched{closed: make(chan struct{})}
			to.read = func(p []byte) (int, error) { return read(to, p) }
			outside, inside := net.Pipe()
			done := make(chan struct{})
			go func() {
				defer close(done)
				pass(ctx, to, inside, func(err error) { t.Errorf("%s: %v", name, err) })
			}()
			if _, err := http.ReadResponse(bufio.NewReaderSize(outside, 16), nil); err != nil {
				t.Fatal(err)
			}
			if name == "both send" || name == "only the client sends" {
				go outside.Write(make([]byte, 1<<20))
			}
			synctest.Wait()
			select {
			case <-done:
				t.Errorf("%s: the connection has ended", name)
			default:
			}
			cancel()
			<-done
			<-to.closed
			if _, err := io.ReadAll(outside); err != nil && !errors.Is(err, io.ErrClosedPipe) {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

// TestNoErrorAfterHijack takes over the connection of a client that has gone: there is no response
// to which an error could be written.
func TestNoErrorAfterHijack(t *testing.T) {
	outside, inside := net.Pipe()
	outside.Close()
	to := &switched{closed: make(chan struct{})}
	pass(t.Context(), to, inside, func(err error) { t.Errorf("an error after the connection was taken over: %v", err) })
	<-to.closed
}
