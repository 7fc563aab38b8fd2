package kapok

import (
	"context"

	"github.com/kapok-dev/kapok/internal/server"

	"k8s.io/client-go/rest"
)

// KubernetesVersion is the release of Kubernetes whose API the server serves, for example to
// compare it with the versions of clients.
const KubernetesVersion = server.KubernetesVersion

// Server is a running API server. Its methods are safe for concurrent use.
type Server server.Server

// Start starts a server, and returns when it serves requests. The server runs until Stop is called
// or ctx is done. In the second case it stops by itself, a moment later than other goroutines that
// wait for ctx, so that clients of the same context can end first.
func Start(ctx context.Context, opts Options) (*Server, error) {
	s, err := server.Start(ctx, server.Options(opts))
	return (*Server)(s), err
}

// Config returns a configuration for clients in this process. Its connections are in memory and
// need no credentials: requests are from the admin, or from the user that Impersonate names. Its
// rate is not limited (QPS -1). The caller owns the configuration and can change it, except for TLS
// and Transport. It works until the server stops.
func (s *Server) Config() *rest.Config { return s.server().Config() }

// Address returns the address of the socket, HOST:PORT, or "" without a socket.
func (s *Server) Address() string { return s.server().Address() }

// Kubeconfig returns a kubeconfig of the admin for the socket, or nil without a socket.
func (s *Server) Kubeconfig() []byte { return s.server().Kubeconfig() }

// Token returns a bearer token of the admin for the socket, or "" without a socket.
func (s *Server) Token() string { return s.server().Token() }

// Compact discards the history of changes up to now. Watches that are behind, and lists and watches
// that start from an older resourceVersion, get 410 Gone. Tests use it to see how a client
// recovers.
func (s *Server) Compact(ctx context.Context) error { return s.server().Compact(ctx) }

// Stop shuts the server down gracefully, and returns when all its goroutines have ended: it rejects
// new connections, ends watches, sends GOAWAY, and gives running requests ten seconds to finish. It
// can be called at any time and more than once. The error reports failures in between; the server
// has stopped in any case.
func (s *Server) Stop() error { return s.server().Stop() }

// Shutdown is Stop with another time limit: running requests can finish until ctx is done.
func (s *Server) Shutdown(ctx context.Context) error { return s.server().Shutdown(ctx) }

// Wait waits until the server has stopped for any reason, and returns what Stop returns.
func (s *Server) Wait() error { return s.server().Wait() }

func (s *Server) server() *server.Server { return (*server.Server)(s) }
