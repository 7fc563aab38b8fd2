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
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/kapok-dev/kapok/internal/auth"
	"github.com/kapok-dev/kapok/internal/auth/pki"
)

// outside is the door for clients of other processes: TLS on a socket.
type outside struct {
	listener    net.Listener
	secure      *secure
	credentials *pki.Credentials
	kubeconfig  atomic.Pointer[[]byte]
	own         bool // the certificate that is shown is one of the credentials
	server      *httpServer
	announcing  sync.Mutex
	announced   string // the kubeconfig's file; "" where there is none. Guarded by announcing
	err         error  // why the server ended by itself; read after stop
	left        error  // what stop could not remove; read after stop
}

// listen binds the socket. Connections wait there until serve is called. A root,
// if there is one, is what all servers of the store share.
func listen(opts Options, root []byte) (_ *outside, err error) {
	listener, err := net.Listen("tcp", opts.Listen)
	switch {
	case taken(err):
		return nil, fmt.Errorf("%s is taken by another program: stop it, or listen at 127.0.0.1:0, which picks a free port", opts.Listen)
	case err != nil:
		return nil, err
	}
	serving := &opts.Authentication.Serving
	out := &outside{listener: listener, secure: newSecure(serving), own: serving.CertFile == ""}
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
	return out, out.present()
}

// present shows the certificate of the credentials, and makes the kubeconfig that goes with them.
func (out *outside) present() error {
	if out.own {
		out.secure.show(out.credentials.ServingCertificate())
	}
	kubeconfig, err := out.credentials.Kubeconfig(out.listener.Addr().String())
	out.kubeconfig.Store(&kubeconfig)
	return err
}

// renew puts new certificates in the place of those that end within a year. It is for one goroutine.
func (out *outside) renew(now time.Time) error {
	renewed, err := out.credentials.Renew(now)
	if err != nil || !renewed {
		return err
	}
	if err := out.present(); err != nil {
		return err
	}
	out.announcing.Lock()
	defer out.announcing.Unlock()
	if out.announced == "" {
		return nil
	}
	return pki.WriteFile(out.announced, *out.kubeconfig.Load())
}

// taken says whether an error of net.Listen means that somebody else listens.
func taken(err error) bool {
	const windows = syscall.Errno(10048) // WSAEADDRINUSE; other systems have no such number
	return errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, windows)
}

// rootCA is the certificate that clients trust the server by, in PEM; nil without a socket.
func (out *outside) rootCA() []byte {
	if out == nil {
		return nil
	}
	return out.credentials.RootCA()
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
		WriteByteTimeout:              time.Minute, // of a client that does not read at all
	}
	s.start(tls.NewListener(out.listener, out.secure.config()), failed)
	out.server = s
}

// announce writes the kubeconfig, which says that the server is ready.
func (out *outside) announce(opts Options) error {
	if opts.Kubeconfig == "" {
		return nil
	}
	out.announcing.Lock()
	defer out.announcing.Unlock()
	if err := pki.WriteFile(opts.Kubeconfig, *out.kubeconfig.Load()); err != nil {
		return err
	}
	out.announced = opts.Kubeconfig
	return nil
}

// stop takes its time until ctx is done. The kubeconfig goes first: it says that
// there is a server.
func (out *outside) stop(ctx context.Context) {
	out.announcing.Lock()
	if out.announced != "" {
		if err := os.Remove(out.announced); !errors.Is(err, fs.ErrNotExist) {
			out.left = err
		}
		out.announced = ""
	}
	out.announcing.Unlock()
	if out.server == nil {
		out.listener.Close()
		return
	}
	out.err = out.server.stop(ctx)
}
