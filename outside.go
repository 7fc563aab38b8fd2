package kapok

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/kapok-dev/kapok/internal/auth"
	"github.com/kapok-dev/kapok/internal/auth/pki"
)

// outside is the door for clients of other processes: TLS on a socket.
type outside struct {
	listener    net.Listener
	credentials *pki.Credentials
	kubeconfig  []byte
	server      *httpServer
	announced   string // the kubeconfig's file; "" before there is one
	err         error  // why the server ended by itself; read after stop
	left        error  // what stop could not remove; read after stop
}

// listen binds the socket. Connections wait there until serve is called. A root,
// if there is one, is what all servers of the store share.
func listen(opts Options, root []byte) (_ *outside, err error) {
	listener, err := net.Listen("tcp", opts.Listen)
	switch {
	case taken(err):
		return nil, fmt.Errorf("%s is taken by another program: stop it, or have a free port picked with --listen 127.0.0.1:0", opts.Listen)
	case err != nil:
		return nil, err
	}
	out := &outside{listener: listener}
	defer func() {
		if err != nil {
			listener.Close()
		}
	}()
	if opts.Kubeconfig != "" {
		if err := pki.ClearKubeconfig(opts.Kubeconfig); err != nil {
			return nil, err
		}
	}
	dir := ""
	if opts.DataDir != "" {
		dir = filepath.Join(opts.DataDir, "pki")
	}
	host, _, err := net.SplitHostPort(opts.Listen)
	if err != nil {
		return nil, err
	}
	if out.credentials, err = pki.Open(dir, root, pki.Hosts(host), time.Now()); err != nil {
		return nil, err
	}
	out.kubeconfig, err = out.credentials.Kubeconfig(listener.Addr().String())
	return out, err
}

// taken says whether an error of net.Listen means that somebody else listens.
func taken(err error) bool {
	const windows = syscall.Errno(10048) // WSAEADDRINUSE; other systems have no such number
	return errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, windows)
}

// authenticator knows whom the credentials identify; without a socket there are
// none, and only connections from inside are known. Bearers of the tokens are
// known in any case.
func (out *outside) authenticator(tokens auth.Tokens) *auth.Authenticator {
	if out == nil {
		return auth.NewAuthenticator(nil, tokens)
	}
	return auth.NewAuthenticator(out.credentials.ClientCAs(), tokens)
}

// rootCA is the certificate that clients trust the server by, in PEM; nil without a socket.
func (out *outside) rootCA() []byte {
	if out == nil {
		return nil
	}
	return out.credentials.RootCA()
}

// tokens are those that the credentials know.
func (out *outside) tokens() auth.Tokens {
	if out == nil {
		return nil
	}
	return auth.Tokens{auth.AdminToken(out.credentials.Token())}
}

// authority signs certificates of clients; nil without a socket, where nobody could show one.
func (out *outside) authority() *pki.Authority {
	if out == nil {
		return nil
	}
	return out.credentials.Authority()
}

func (out *outside) serve(h http.Handler, log *slog.Logger, failed func()) {
	s := newHTTPServer(h, log)
	s.ConnContext = func(ctx context.Context, _ net.Conn) context.Context { return auth.ConnContext(ctx) }
	s.IdleTimeout = 90 * time.Second
	s.HTTP2 = &http.HTTP2Config{
		MaxConcurrentStreams: 250,
		// Most objects fit into a frame, and memory a connection stays bounded.
		MaxReadFrameSize:              256 << 10,
		MaxReceiveBufferPerStream:     256 << 10,
		MaxReceiveBufferPerConnection: 2 << 20,
	}
	s.start(tls.NewListener(out.listener, &tls.Config{
		MinVersion:   tls.VersionTLS12,
		NextProtos:   []string{"h2", "http/1.1"},
		Certificates: []tls.Certificate{out.credentials.ServingCertificate()},
		// Who shows none may have a token; what it is worth is judged by auth.
		ClientAuth: tls.RequestClientCert,
		ClientCAs:  out.credentials.ClientCAs(),
	}), failed)
	out.server = s
}

// announce writes the kubeconfig, which says that the server is ready.
func (out *outside) announce(opts Options) error {
	if opts.Kubeconfig == "" {
		return nil
	}
	if err := pki.WriteFile(opts.Kubeconfig, out.kubeconfig); err != nil {
		return err
	}
	out.announced = opts.Kubeconfig
	return nil
}

// stop takes its time until ctx is done. The kubeconfig goes first: it says that
// there is a server.
func (out *outside) stop(ctx context.Context) {
	if out.announced != "" {
		if err := os.Remove(out.announced); !errors.Is(err, fs.ErrNotExist) {
			out.left = err
		}
	}
	if out.server == nil {
		out.listener.Close()
		return
	}
	out.err = out.server.stop(ctx)
}
