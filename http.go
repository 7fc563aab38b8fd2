package kapok

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

// httpServer is an http.Server that ends as a whole: when stop returns, no
// request is served any more.
type httpServer struct {
	http.Server
	gate     *gate
	newcomer newcomers
	done     chan struct{} // closed when serving has ended
	err      error         // why it ended; set before done is closed
}

func newHTTPServer(h http.Handler, logger *slog.Logger) *httpServer {
	s := &httpServer{gate: &gate{handler: h}, done: make(chan struct{})}
	s.Handler = s.gate
	s.ConnState = s.newcomer.observe
	s.MaxHeaderBytes = 1 << 20
	s.ReadHeaderTimeout = 32 * time.Second // as kube-apiserver has it
	s.ErrorLog = log.New(connectionLog{logger}, "", 0)
	return s
}

// start serves a listener, and owns it from now on. Where serving ends by itself,
// failed is called.
func (s *httpServer) start(l net.Listener, failed func()) {
	go func() {
		defer close(s.done)
		if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.err = err
			failed()
		}
	}()
}

// stop lets running requests finish until ctx is done, and then cuts them off.
// It returns the error that had ended serving before, if any.
func (s *httpServer) stop(ctx context.Context) error {
	s.newcomer.turnAway()
	if err := s.Shutdown(ctx); err != nil {
		s.Close()
	}
	s.gate.close()
	<-s.done
	return s.err
}

// newcomers are the connections that have not asked for anything yet. Shutdown
// of net/http gives them five seconds; a transport that has dialled one too many
// would make every stop as long.
type newcomers struct {
	mu         sync.Mutex
	waiting    map[net.Conn]struct{}
	turnedAway bool
}

// observe is for http.Server.ConnState.
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

// turnAway closes all newcomers, from now on.
func (n *newcomers) turnAway() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.turnedAway = true
	for c := range n.waiting {
		c.Close()
	}
}

// gate lets requests pass to the handler and knows when the last one is out.
type gate struct {
	handler http.Handler
	mu      sync.Mutex // orders passing and closing
	closed  bool
	inside  sync.WaitGroup
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !g.enter() {
		http.Error(w, "server is stopping", http.StatusServiceUnavailable)
		return
	}
	defer g.inside.Done()
	g.handler.ServeHTTP(w, r)
}

func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		g.inside.Add(1)
	}
	return !g.closed
}

// close lets nobody in any more and waits until everybody is out.
func (g *gate) close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.inside.Wait()
}

// connectionLog takes what net/http has to say about connections. A client that
// breaks off its handshake is no news.
type connectionLog struct{ log *slog.Logger }

func (l connectionLog) Write(p []byte) (int, error) {
	level := slog.LevelWarn
	if bytes.HasPrefix(p, []byte("http: TLS handshake error")) {
		level = slog.LevelDebug
	}
	l.log.Log(context.Background(), level, string(bytes.TrimSpace(p)))
	return len(p), nil
}
