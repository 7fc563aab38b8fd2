// Package server starts the parts of an API server in order, and closes them in reverse. Package
// kapok is its public API.
package server

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/kapok-dev/kapok/internal/authn"
	"github.com/kapok-dev/kapok/internal/authn/methods"
	"github.com/kapok-dev/kapok/internal/authn/serviceaccount"
	"github.com/kapok-dev/kapok/internal/reload"
	"github.com/kapok-dev/kapok/internal/transport"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
)

// drainTime limits the time that Stop waits for running requests.
const drainTime = 10 * time.Second

// courtesy is the time that a server runs after its context has ended, so that clients of the same
// context can end before it: they stop watches, release leases, write their last events. In a
// testing/synctest bubble, whose clock stands still while a goroutine can run, all of them have
// ended by then.
const courtesy = 10 * time.Millisecond

// Server is a running API server. Its methods are safe for concurrent use. Package kapok documents
// them.
type Server struct {
	store          *store
	handler        handler
	inProcess      *connection
	socket         *socket // nil without Options.Listen
	authentication *methods.Methods
	files          []*reload.File // read again when they change
	unwatch        func()         // stops reading files; nil if there are none

	closers closers
	drain   context.Context // done when running requests are cut off
	hurry   context.CancelFunc
	done    chan struct{} // closed when all parts of the server have stopped
	err     error         // what Stop returns; set before done is closed

	delay    time.Duration // Options.ShutdownDelay
	grace    time.Duration // Options.ShutdownWatchGrace
	stopping struct {
		sync.Mutex
		begun   bool
		release func() bool // of the context of Start; nil before Start returns
	}
}

// setup is the options of a server, and the dependencies that tests replace.
type setup struct {
	Options
	journals   Journals
	newHandler func(context.Context, parts) (handler, error) // nil for newHandler
}

// Start starts a server, and returns when it serves requests. The error is that of
// [Options.Validate], or of the part that does not start.
func Start(ctx context.Context, opts Options) (*Server, error) {
	return setup{Options: opts}.start(ctx)
}

// StartOn is Start with other journals, for tests in this module.
func StartOn(ctx context.Context, opts Options, journals Journals) (*Server, error) {
	return setup{Options: opts, journals: journals}.start(ctx)
}

func (with setup) start(ctx context.Context) (_ *Server, err error) {
	if err := with.Validate(); err != nil {
		return nil, err
	}
	opts := with.Options.withDefaults()
	build := with.newHandler
	if build == nil {
		build = newHandler
	}
	s := &Server{done: make(chan struct{}), delay: opts.ShutdownDelay, grace: opts.ShutdownWatchGrace}
	s.drain, s.hurry = context.WithCancel(context.Background())
	defer func() {
		if err != nil {
			s.Stop()
		}
	}()

	if err = keepPrivate(opts.DataDir, opts.Logger); err != nil {
		return nil, err
	}
	opts.warnOfReadable()
	// The store comes first: its lock keeps other servers out of the data directory.
	if s.store, err = openStore(ctx, opts, with.journals); err != nil {
		return nil, err
	}
	s.closers.add(s.store.close)
	if opts.Listen != "" {
		if s.socket, err = listen(opts, s.store); err != nil {
			return nil, err
		}
		s.closers.do(s.socket.close)
	}
	accounts, err := newIssuer(s.store.state, s.store.signingKey, opts)
	if err != nil {
		return nil, err
	}
	if err = s.authenticate(ctx, opts, accounts); err != nil {
		return nil, err
	}
	authenticator := s.authentication.Authenticator()
	proxying, err := opts.Aggregation.proxying(opts.DataDir, s.socket, authenticator)
	if err != nil {
		return nil, err
	}
	acting := prometheus.NewRegistry() // of the controllers
	s.handler, err = build(ctx, parts{
		state:         s.store.state,
		shared:        s.store.shared,
		sealer:        s.store.sealer,
		compact:       s.store.compact,
		collectors:    append(s.store.collectors(), acting),
		authenticator: authenticator,
		tokens:        s.authentication.Tokens(),
		accounts:      accounts,
		rootCA:        s.socket.rootCA(),
		authority:     s.socket.authority(),
		proxying:      proxying,
		address:       s.Address(),
		options:       opts,
	})
	if err != nil {
		return nil, err
	}
	s.closers.do(s.handler.Close)
	s.inProcess = &connection{
		InProcess: transport.ServeInProcess(s.handler, opts.Logger, authn.InProcessContext),
		store:     s.handler.Store(), stopped: make(chan struct{}),
	}
	s.closers.add(s.stopServing)
	if s.socket != nil {
		outside := http.Handler(s.handler)
		if opts.Front != nil {
			outside = opts.Front(outside)
		}
		s.socket.serve(outside, opts.Logger, s.beginStop)
		if err = s.socket.announce(opts); err != nil {
			return nil, err
		}
	}
	if c := opts.Controllers; c != nil {
		shared := s.store.shared
		s.closers.do(background(func(ctx context.Context) { runControllers(ctx, c, s.Config(), opts.Logger, acting, shared) }))
	}
	s.stopping.Lock()
	defer s.stopping.Unlock()
	s.stopping.release = context.AfterFunc(ctx, s.outliveContext)
	return s, nil
}

// authenticate opens the methods of authentication, and watches their files and those of the
// socket.
func (s *Server) authenticate(ctx context.Context, opts Options, accounts *serviceaccount.Issuer) (err error) {
	config := methods.Config{Options: opts.Authentication, Accounts: accounts, State: s.store.state, Logger: opts.Logger}
	if s.socket != nil {
		config.Socket = s.socket
	}
	if s.authentication, err = methods.Open(ctx, config); err != nil {
		return err
	}
	s.closers.do(s.authentication.Close)
	s.files = s.authentication.Files()
	if s.socket != nil {
		if err := s.socket.readCertificates(ctx); err != nil {
			return err
		}
		s.files = append(s.files, s.socket.files...)
		s.closers.do(background(func(ctx context.Context) { s.socket.keepRenewed(ctx, opts.Logger) }))
	}
	if len(s.files) > 0 {
		s.unwatch = background(func(ctx context.Context) { reload.Watch(ctx, opts.Logger, s.files...) })
		s.closers.do(s.unwatch)
	}
	return nil
}

// background runs a function in a goroutine. stop cancels its context, and waits until it returns.
func background(run func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { run(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
}

// Config returns a configuration for clients in this process.
func (s *Server) Config() *rest.Config { return s.inProcess.Config() }

// Address returns the address of the socket, HOST:PORT, or "" without a socket.
func (s *Server) Address() string { return s.socket.address() }

// Kubeconfig returns a kubeconfig of the admin for the socket, or nil without a socket.
func (s *Server) Kubeconfig() []byte {
	if s.socket == nil {
		return nil
	}
	return *s.socket.kubeconfig.Load()
}

// Token returns a bearer token of the admin for the socket, or "" without a socket.
func (s *Server) Token() string {
	if s.socket == nil {
		return ""
	}
	return s.socket.Token()
}

// Compact discards the history of changes up to now.
func (s *Server) Compact(ctx context.Context) error {
	return s.store.state.Compact(ctx, s.store.state.Revision())
}

// Stop is Shutdown with ten seconds for running requests, after the delay and the grace period of
// watches of the options.
func (s *Server) Stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), s.delay+s.grace+drainTime)
	defer cancel()
	return s.Shutdown(ctx)
}

// Shutdown stops the server, and returns when it has stopped. After the delay of the options,
// running requests can finish until ctx is done, which also ends the delay.
func (s *Server) Shutdown(ctx context.Context) error {
	s.beginStop()
	select {
	case <-s.done:
	case <-ctx.Done():
		s.hurry()
		<-s.done
	}
	return s.err
}

// Wait waits until the server has stopped for any reason, and returns the error of Stop.
func (s *Server) Wait() error {
	<-s.done
	return s.err
}

func (s *Server) outliveContext() {
	select {
	case <-time.After(courtesy):
	case <-s.done:
	}
	s.Stop()
}

func (s *Server) beginStop() {
	s.stopping.Lock()
	defer s.stopping.Unlock()
	if s.stopping.begun {
		return
	}
	s.stopping.begun = true
	if s.stopping.release == nil { // Start has failed
		go s.stop(0)
		return
	}
	s.stopping.release()
	go s.stop(s.delay)
}

// stop closes all parts that have been started, also those of a Start that has failed. Before that,
// it serves requests for the delay, while /readyz fails.
func (s *Server) stop(delay time.Duration) {
	defer close(s.done)
	defer s.hurry()
	if delay > 0 {
		s.handler.Retire()
		select {
		case <-time.After(delay):
		case <-s.drain.Done():
		}
	}
	s.err = s.closers.close()
}

// stopServing rejects new requests, ends watches, and drains both transports concurrently: a slow
// client of one transport does not shorten the time for clients of the other.
func (s *Server) stopServing() error {
	s.inProcess.Refuse() // first, since clients restart watches at once
	s.handler.Retire()
	s.handler.EndWatches()
	var transports sync.WaitGroup
	transports.Go(func() { s.inProcess.Stop(s.drain) })
	var err error
	if s.socket != nil && s.socket.server != nil {
		transports.Go(func() { err = s.socket.stop(s.drain) })
	}
	transports.Wait()
	return err
}
