package transport

import (
	"bytes"
	"context"
	"errors"
	"log"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// Server is an http.Server whose Stop waits for all requests.
type Server struct {
	http.Server
	// RetryAfter makes Stop accept connections until the requests under way have ended, and reject
	// the requests that they send with 429 and Retry-After. Default: connections are refused.
	RetryAfter bool
	gate       *gate
	newcomer   newcomers
	done       chan struct{} // closed when serving has ended
	err        error         // reason of the end; set before done is closed
}

// NewServer returns a server of a handler, which logs messages about connections. Fields of the
// http.Server may be set before Start.
func NewServer(h http.Handler, logger *slog.Logger) *Server {
	s := &Server{gate: &gate{handler: h}, done: make(chan struct{})}
	s.Handler = s.gate
	s.ConnState = s.newcomer.observe
	s.MaxHeaderBytes = 1 << 20
	s.ReadHeaderTimeout = 32 * time.Second // as in kube-apiserver
	s.ErrorLog = log.New(connectionLog{logger}, "", 0)
	return s
}

// BoundConnections limits the resources of each connection, for clients outside of the process: a
// client needs no credentials to make the server allocate buffers for frames and bodies. streams
// limits the concurrent requests of an HTTP/2 connection.
func (s *Server) BoundConnections(streams int) {
	s.IdleTimeout = 90 * time.Second
	s.HTTP2 = &http.HTTP2Config{
		MaxConcurrentStreams: streams,
		// The buffer of a frame lives as long as its connection. Larger frames would save little,
		// because a TLS record is not larger than this, which is the minimum that HTTP/2 allows.
		MaxReadFrameSize:              16 << 10,
		MaxReceiveBufferPerStream:     256 << 10,
		MaxReceiveBufferPerConnection: 2 << 20,
		WriteByteTimeout:              time.Minute, // for clients that do not read at all
	}
}

// Start serves a listener and takes ownership of it. It calls failed if serving ends before
// Shutdown or Close.
func (s *Server) Start(l net.Listener, failed func()) {
	go func() {
		defer close(s.done)
		if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.err = err
			failed()
		}
	}()
}

// Stop waits until ctx is done for requests under way, and then aborts them. It returns the error
// that has ended serving before Stop, if any.
func (s *Server) Stop(ctx context.Context) error {
	if s.RetryAfter {
		select {
		case <-s.gate.postpone():
		case <-ctx.Done():
		}
	}
	s.newcomer.turnAway()
	if err := s.Shutdown(ctx); err != nil {
		s.Close()
	}
	<-s.gate.close()
	<-s.done
	return s.err
}

// newcomers are the connections that have not sent a request yet. net/http's Shutdown waits five
// seconds for them; a transport that has opened a spare connection would delay each stop by that
// time.
type newcomers struct {
	mu         sync.Mutex
	waiting    map[net.Conn]struct{}
	turnedAway bool
}

// observe is a callback for http.Server.ConnState.
func (n *newcomers) observe(c net.Conn, state http.ConnState) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case state != http.StateNew:
		delete(n.waiting, c)
	case n.turnedAway:
		c.Close()
	default:
		if n.waiting == nil {
			n.waiting = map[net.Conn]struct{}{}
		}
		n.waiting[c] = struct{}{}
	}
}

// turnAway closes all newcomers, including later ones.
func (n *newcomers) turnAway() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.turnedAway = true
	for c := range n.waiting {
		c.Close()
	}
}

// connectionLog logs messages of net/http about connections as warnings, except those about failed
// TLS handshakes, which clients often abort: their level is debug.
type connectionLog struct{ log *slog.Logger }

func (l connectionLog) Write(p []byte) (int, error) {
	level := slog.LevelWarn
	if bytes.HasPrefix(p, []byte("http: TLS handshake error")) {
		level = slog.LevelDebug
	}
	l.log.Log(context.Background(), level, string(bytes.TrimSpace(p)))
	return len(p), nil
}
