package manager

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"strings"
	"time"

	"github.com/go-logr/logr"
)

// courtesy is how long requests to a server may take that is to stop.
const courtesy = 5 * time.Second

// A server is one of the sockets of a manager.
type server struct {
	name    string
	address string
	handler http.Handler
	logger  logr.Logger
}

// Start implements Runnable: it serves until the context ends, and waits for requests that are under way.
func (s *server) Start(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.address)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("%s server: %w", s.name, err)
	}
	s.logger.Info("Serving", "server", s.name, "address", listener.Addr().String())
	http := &http.Server{
		Handler:           s.handler,
		MaxHeaderBytes:    1 << 20,
		IdleTimeout:       90 * time.Second,
		ReadHeaderTimeout: 32 * time.Second,
		BaseContext:       func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
	}
	served := make(chan error, 1)
	go func() { served <- http.Serve(listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("%s server: %w", s.name, err)
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), courtesy)
	defer cancel()
	if err = http.Shutdown(last); err != nil {
		err = errors.Join(fmt.Errorf("%s server: %w", s.name, err), http.Close())
	}
	<-served
	return err
}

// NeedLeaderElection implements LeaderElectionRunnable.
func (*server) NeedLeaderElection() bool { return false }

// healthHandler serves two sets of checks.
func healthHandler(liveness string, live *checks, readiness string, ready *checks) http.Handler {
	mux := http.NewServeMux()
	for path, c := range map[string]*checks{liveness: live, readiness: ready} {
		mux.Handle(path, http.StripPrefix(path, c))
		mux.Handle(path+"/", http.StripPrefix(path, c))
	}
	return mux
}

func pprofHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}

// endpoint is a path that begins with a slash and does not end with one.
func endpoint(path, otherwise string) (string, error) {
	path = strings.Trim(path, "/")
	if path == "" {
		return otherwise, nil
	}
	if strings.ContainsAny(path, "{} ") {
		return "", fmt.Errorf("manager: path of health %q", path)
	}
	return "/" + path, nil
}

// handle adds a handler to a mux, or says what is wrong with its pattern, for which the mux panics.
func handle(mux *http.ServeMux, pattern string, h http.Handler) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("manager: handler of %q: %v", pattern, r)
		}
	}()
	mux.Handle(pattern, h)
	return nil
}

// isAddress says that something is to listen.
func isAddress(address string) bool { return address != "" && address != "0" }
