// Package kapok is a Kubernetes API server without the cluster, to be embedded
// in any program:
//
//	server, err := kapok.Start(ctx, kapok.Options{})
//	if err != nil {
//		return err
//	}
//	defer server.Stop()
//	clients, err := dynamic.NewForConfig(server.Config())
//
// # The way of a request
//
// A client comes in through one of two doors, which lead to the same handler:
//
//   - [Server.Config] reaches the server from inside the process, over
//     connections that are made in memory. Who has it is the admin.
//   - [Options.Listen] opens a TLS socket, with HTTP/2, for everybody who holds
//     the credentials of [Server.Kubeconfig].
//
// From there the way leads through packages of their own, in this order:
//
//	internal/auth       who sends it, and may he
//	internal/endpoint   HTTP: what is asked for, and in which form the answer goes out
//	internal/audit      what is written down of it
//	internal/fairness   whose turn it is
//	internal/aggregate  the groups that other servers serve behind this one
//	internal/resource   the eight verbs, from the request to the journal
//	internal/admission  what may come in, and what becomes of it: webhooks, policies, plugins
//	internal/crd        the kinds that came over the API; internal/builtin those that were there before
//	internal/state      all objects, as the fold of a journal
//	internal/journal    what makes a write durable: pebble on a disk, etcd, or memory
//
// # One server, and many
//
// A process may run any number of servers; they share nothing. A server owns its
// goroutines and connections, and Stop waits for all of them. It reads the clock
// through package time and blocks on nothing from outside: without a socket and
// a data directory, everything works inside a testing/synctest bubble.
//
// In a bubble, end the server and its clients with one context, or the clients
// first. After another order, or a failure, clients may have errors to report, and
// client-go does so through HandleError of k8s.io/apimachinery/pkg/util/runtime,
// which sleeps until a millisecond after the last error, or the start, of the
// process. That is decades away on the clock of a bubble: who reports seems to hang.
// Tests that expect errors take the sleep, the second of ErrorHandlers, away in
// TestMain.
package kapok

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

// drainTime is how long Stop lets requests finish that are under way.
const drainTime = 10 * time.Second

// courtesy is how much longer than its context a server runs, so that clients of
// the same context can leave before it: they end watches, release leases, write
// last events. In a bubble, whose clock stands still while anybody has something
// to do, all of them are out by then.
const courtesy = 10 * time.Millisecond

// Server is a running API server. Its methods are safe for concurrent use.
type Server struct {
	store   *store
	handler handler
	inside  *inside
	outside *outside // nil without a socket
	login   *login

	drain context.Context // done when requests must not take longer
	hurry context.CancelFunc
	done  chan struct{} // closed when nothing of the server is left
	err   error         // what Stop returns; set before done is closed

	stopping struct {
		sync.Mutex
		begun   bool
		release func() bool // of the context of Start; nil before Start returns
	}
}

// Start starts a server, and returns when it serves. The server runs until it is
// stopped or ctx is done; then it stops by itself, as with [Server.Stop], and a
// moment later than others who wait for ctx.
func Start(ctx context.Context, opts Options) (_ *Server, err error) {
	if err := opts.complete(); err != nil {
		return nil, err
	}
	s := &Server{done: make(chan struct{})}
	s.drain, s.hurry = context.WithCancel(context.Background())
	defer func() {
		if err != nil {
			s.Stop()
		}
	}()

	// The store comes first: its lock says that the data directory is ours.
	if s.store, err = openStore(ctx, opts); err != nil {
		return nil, err
	}
	if opts.Listen != "" {
		if s.outside, err = listen(opts, s.store.root); err != nil {
			return nil, err
		}
	}
	accounts, err := newIssuer(s.store, opts)
	if err != nil {
		return nil, err
	}
	if s.login, err = openLogin(opts, s.outside, accounts); err != nil {
		return nil, err
	}
	proxying, err := opts.Aggregation.proxying(opts.DataDir, s.outside, s.login.authenticator)
	if err != nil {
		return nil, err
	}
	s.handler, err = opts.newHandler(ctx, parts{
		store:         s.store,
		authenticator: s.login.authenticator,
		tokens:        s.login.known,
		accounts:      accounts,
		rootCA:        s.outside.rootCA(),
		authority:     s.outside.authority(),
		proxying:      proxying,
		address:       s.Address(),
		options:       opts,
	})
	if err != nil {
		return nil, err
	}
	s.inside = serveInside(s.handler, opts.Logger)
	if s.outside != nil {
		s.outside.serve(s.handler, opts.Logger, s.beginStop)
		if err = s.outside.announce(opts); err != nil {
			return nil, err
		}
	}
	s.stopping.Lock()
	defer s.stopping.Unlock()
	s.stopping.release = context.AfterFunc(ctx, s.outliveContext)
	return s, nil
}

// Config returns a configuration for clients in this process. Its requests take
// no socket and need no credentials: they are the admin's, or those of whoever
// Impersonate says. Its rate is not limited (QPS -1). The configuration is the
// caller's to change, but for TLS and Transport; it serves as long as the server
// runs.
func (s *Server) Config() *rest.Config { return s.inside.config() }

// Address returns where the server listens, HOST:PORT; empty without a socket.
func (s *Server) Address() string {
	if s.outside == nil {
		return ""
	}
	return s.outside.listener.Addr().String()
}

// Kubeconfig returns a kubeconfig for the admin over the socket; nil without one.
func (s *Server) Kubeconfig() []byte {
	if s.outside == nil {
		return nil
	}
	return *s.outside.kubeconfig.Load()
}

// Compact forgets the history of changes up to now. Watches that have not come so
// far yet, and lists and watches that start from an older resourceVersion, are told
// that it is gone (410): so one can try how a client copes.
func (s *Server) Compact(ctx context.Context) error { return s.store.state.Compact(ctx) }

// Stop stops the server and waits for the end: new connections are refused,
// watches end, connections get a GOAWAY, and requests that are under way have
// ten seconds to finish. It may be called at any time and more than once. The
// error says what went wrong on the way; the server has stopped nevertheless.
func (s *Server) Stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), drainTime)
	defer cancel()
	return s.Shutdown(ctx)
}

// Shutdown is Stop with another patience: requests may finish until ctx is done.
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

// Wait waits until the server has stopped, for whatever reason, and returns what
// Stop returns.
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
	if s.stopping.release != nil {
		s.stopping.release()
	}
	go s.stop()
}

// stop takes down what Start has built, which may be a part of it.
func (s *Server) stop() {
	defer close(s.done)
	defer s.hurry()
	var errs []error
	if s.inside != nil {
		s.inside.refuse() // first, as whose watch ends comes again at once
	}
	if s.handler != nil {
		s.handler.EndWatches()
	}
	// Both doors close at once: a slow client at one should not keep the other.
	var doors sync.WaitGroup
	if s.inside != nil {
		doors.Go(func() { s.inside.stop(s.drain) })
	}
	if s.outside != nil {
		doors.Go(func() { s.outside.stop(s.drain) })
	}
	doors.Wait()
	if s.outside != nil {
		errs = append(errs, s.outside.err, s.outside.left)
	}
	if s.handler != nil {
		s.handler.Close()
	}
	if s.login != nil {
		s.login.close()
	}
	if s.store != nil {
		errs = append(errs, s.store.close())
	}
	s.err = errors.Join(errs...)
}
