package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok/internal/authn"
	"github.com/kapok-dev/kapok/internal/transport"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// frames is an HTTP/2 client that sends arbitrary frames.
type frames struct {
	*http2.Framer
	conn    net.Conn
	header  bytes.Buffer
	encoder *hpack.Encoder
	stream  uint32 // ID of the next stream
}

// serveFrames serves a handler over a pipe, as the socket does, and returns a connection. The test
// must run in a bubble.
func serveFrames(t *testing.T, h http.Handler) *frames {
	t.Helper()
	s, p := transport.NewServer(h, slog.New(slog.DiscardHandler)), transport.NewListener()
	s.BoundConnections(transport.DefaultMaxStreams)
	s.Protocols = new(http.Protocols)
	s.Protocols.SetUnencryptedHTTP2(true)
	s.ConnContext = func(ctx context.Context, _ net.Conn) context.Context { return authn.InProcessContext(ctx) }
	s.Start(p, func() {})
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		s.Stop(ctx)
		time.Sleep(2 * time.Second) // a connection lingers for a second after GOAWAY
	})
	conn, err := p.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	f := &frames{Framer: http2.NewFramer(conn, conn), conn: conn, stream: 1}
	f.encoder = hpack.NewEncoder(&f.header)
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	if err := f.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	return f
}

// ask begins a request. The header block is complete unless open is true.
func (f *frames) ask(method, path string, end, open bool, headers ...string) (stream uint32, err error) {
	f.header.Reset()
	headers = append([]string{":method", method, ":scheme", "http", ":authority", "kapok", ":path", path}, headers...)
	for i := 0; i < len(headers); i += 2 {
		if err := f.encoder.WriteField(hpack.HeaderField{Name: headers[i], Value: headers[i+1]}); err != nil {
			return 0, err
		}
	}
	stream = f.stream
	f.stream += 2
	return stream, f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: f.header.Bytes(), EndStream: end, EndHeaders: !open})
}

// until reads frames until found returns true, or until the connection ends.
func (f *frames) until(found func(http2.Frame) bool) error {
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return err
		}
		if found(frame) {
			return nil
		}
	}
}

func isGoAway(code http2.ErrCode) func(http2.Frame) bool {
	return func(f http2.Frame) bool {
		away, ok := f.(*http2.GoAwayFrame)
		return ok && away.ErrCode == code
	}
}

// TestRapidReset cancels each request as soon as it is sent: the server handles no more requests at
// a time than a connection may have, does not handle requests that are cancelled before they begin,
// and closes the connection.
func TestRapidReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var handled, most atomic.Int64
		release := make(chan struct{})
		f := serveFrames(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			most.Store(max(most.Load(), handled.Add(1)))
			<-release // a handler that ignores cancellation
		}))
		var writing sync.WaitGroup
		writing.Go(func() {
			for range 10_000 {
				stream, err := f.ask(http.MethodGet, "/", true, false)
				if err != nil {
					return
				}
				if f.WriteRSTStream(stream, http2.ErrCodeCancel) != nil {
					return
				}
			}
			t.Error("the client could send and cancel 10,000 requests")
		})
		if err := f.until(isGoAway(http2.ErrCodeEnhanceYourCalm)); err != nil {
			t.Errorf("the connection ended without GOAWAY: %v", err)
		}
		f.conn.Close()
		writing.Wait()
		close(release)
		synctest.Wait()
		if n := handled.Load(); n > 100 {
			t.Errorf("the server handled %d requests, all of them cancelled", n)
		}
	})
}

// TestHTTP2Bounds checks the limits of a connection before any request is authenticated.
func TestHTTP2Bounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := serveFrames(t, http.NotFoundHandler())
		bounds := map[http2.SettingID]uint32{http2.SettingMaxFrameSize: 16 << 10, http2.SettingMaxConcurrentStreams: 100, http2.SettingInitialWindowSize: 256 << 10}
		err := f.until(func(frame http2.Frame) bool {
			settings, ok := frame.(*http2.SettingsFrame)
			if !ok || settings.IsAck() {
				return false
			}
			for id, most := range bounds {
				if got, ok := settings.Value(id); !ok || got > most {
					t.Errorf("%v is %d, want at most %d", id, got, most)
				}
			}
			return true
		})
		if err != nil {
			t.Fatal(err)
		}
		go f.WriteRawFrame(0xff, 0, 0, make([]byte, 20<<10)) // of a type that servers must ignore
		if err := f.until(isGoAway(http2.ErrCodeFrameSize)); err != nil {
			t.Errorf("a larger frame is accepted, or ends the connection without GOAWAY: %v", err)
		}
	})
}

// TestHTTP2SlowHeader checks that the server closes a connection whose client does not complete a
// header block.
func TestHTTP2SlowHeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := serveFrames(t, http.NotFoundHandler())
		begin := time.Now()
		go func() {
			stream, err := f.ask(http.MethodGet, "/", true, true)
			for err == nil {
				time.Sleep(time.Second)
				err = f.WriteContinuation(stream, false, nil)
			}
		}()
		err := f.until(func(http2.Frame) bool { return false })
		if took := time.Since(begin); took > 2*time.Minute {
			t.Errorf("the connection was open for %v: %v", took, err)
		}
		f.conn.Close()
	})
}

// TestHTTP2SlowBody checks that a client that sends a body byte by byte gets a response in time.
func TestHTTP2SlowBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := Start(t.Context(), Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Stop()
		f := serveFrames(t, s.handler)
		begin := time.Now()
		over := errors.New("the request is over")
		go func() {
			stream, err := f.ask(http.MethodPost, "/api/v1/namespaces/default/configmaps", false, false, "content-type", "application/json", "content-length", "1000000")
			for err == nil {
				time.Sleep(time.Second)
				if err = f.WriteData(stream, false, []byte("{")); time.Since(begin) > 10*time.Minute {
					err = over
				}
			}
		}()
		err = f.until(func(frame http2.Frame) bool {
			h, ok := frame.(*http2.HeadersFrame)
			return ok && h.StreamID == 1
		})
		if took := time.Since(begin); err != nil || took > time.Minute {
			t.Errorf("response after %v, %v", took, err)
		}
		f.conn.Close()
	})
}
