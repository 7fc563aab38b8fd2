package manager

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"strings"

	"github.com/kapok-dev/kapok/manager/internal/serve"

	"github.com/go-logr/logr"
)

// A server is one of the sockets of a manager.
type server struct {
	name    string
	address string
	handler http.Handler
	logger  logr.Logger
}

// Start implements Runnable: it serves until ctx ends, then waits for active requests.
func (s *server) Start(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.address)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("%s server: %w", s.name, err)
	}
	return serve.HTTP(ctx, s.name, listener, s.handler, s.logger)
}

// NeedLeaderElection implements LeaderElectionRunnable.
func (*server) NeedLeaderElection() bool { return false }

// healthHandler serves the two sets of checks.
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

// endpoint validates a path: it must begin with a slash, and not end with one.
func endpoint(path, otherwise string) (string, error) {
	path = strings.Trim(path, "/")
	if path == "" {
		return otherwise, nil
	}
	if strings.ContainsAny(path, "{} ") {
		return "", fmt.Errorf("manager: path of health checks %q: must begin with a slash and not end with one", path)
	}
	return "/" + path, nil
}

// isAddress reports whether an address is to be served.
func isAddress(address string) bool { return address != "" && address != "0" }
