package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
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

	"github.com/kapok-dev/kapok/internal/authn"
	"github.com/kapok-dev/kapok/internal/pki"
	"github.com/kapok-dev/kapok/internal/reload"
	"github.com/kapok-dev/kapok/internal/transport"
)

// socket accepts connections of other processes, over TCP with TLS.
type socket struct {
	listener    net.Listener
	serving     transport.ServingOptions
	secure      *transport.TLS
	files       []*reload.File // certificates of the options
	credentials *pki.Credentials
	kubeconfig  atomic.Pointer[[]byte]
	own         bool // the certificate is that of the credentials
	retryAfter  bool // Options.ShutdownRetryAfter
	server      *transport.Server
	announcing  sync.Mutex
	announced   string // the file of the kubeconfig; "" for none. Guarded by announcing
}

// listen binds the socket. Connections wait until serve is called.
func listen(opts Options, st *store) (_ *socket, err error) {
	listener := opts.Listener
	if listener == nil {
		listener, err = transport.Listen(opts.Listen, opts.Serving.SharePort)
	}
	switch {
	case taken(err):
		return nil, fmt.Errorf("Options.Listen is %s, which another program uses: stop it, or listen at 127.0.0.1:0, which picks a free port", opts.Listen)
	case err != nil:
		return nil, err
	}
	serving := opts.Serving
	out := &socket{listener: listener, serving: serving, secure: transport.NewTLS(&serving), own: serving.CertFile == "", retryAfter: opts.ShutdownRetryAfter}
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
	if out.credentials, err = pki.Open(dir, st.root, st.hosts(host), time.Now()); err != nil {
		return nil, err
	}
	return out, out.present()
}

// present installs the certificate of the credentials, and creates the kubeconfig for them.
func (s *socket) present() error {
	if s.own {
		s.secure.Show(s.credentials.ServingCertificate())
	}
	kubeconfig, err := s.credentials.Kubeconfig(s.listener.Addr().String())
	s.kubeconfig.Store(&kubeconfig)
	return err
}

// renewals is the interval at which keepRenewed checks the certificates.
const renewals = time.Hour

// keepRenewed renews certificates until ctx is done.
func (s *socket) keepRenewed(ctx context.Context, log *slog.Logger) {
	tick := time.NewTicker(renewals)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if err := s.renew(time.Now()); err != nil {
			log.Error("cannot renew the certificates of the server", "error", err)
		}
	}
}

// renew replaces certificates that expire within a year. It must not be called concurrently. The
// authority of the credentials stays the same, and can be read meanwhile.
func (s *socket) renew(now time.Time) error {
	renewed, err := s.credentials.Renew(now)
	if err != nil || !renewed {
		return err
	}
	if err := s.present(); err != nil {
		return err
	}
	s.announcing.Lock()
	defer s.announcing.Unlock()
	if s.announced == "" {
		return nil
	}
	return pki.WriteFile(s.announced, *s.kubeconfig.Load())
}

// taken reports whether an error of net.Listen means that the address is in use.
func taken(err error) bool {
	const windows = syscall.Errno(10048) // WSAEADDRINUSE; other systems have no such number
	return errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, windows)
}

// address returns the address of the socket, HOST:PORT, or "" without a socket.
func (s *socket) address() string {
	if s == nil {
		return ""
	}
	return s.listener.Addr().String()
}

// Token returns the bearer token of the admin.
func (s *socket) Token() string { return s.credentials.Token() }

// readCertificates reads the certificates of the options.
func (s *socket) readCertificates(ctx context.Context) error {
	if !s.own {
		err := s.readCertificate(ctx, s.serving.CertFile, s.serving.KeyFile, func(pair tls.Certificate) error {
			s.secure.Show(pair)
			return nil
		})
		if err != nil {
			return err
		}
	}
	for i, named := range s.serving.Named {
		err := s.readCertificate(ctx, named.CertFile, named.KeyFile, func(pair tls.Certificate) error {
			return s.secure.ShowNamed(i, pair)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *socket) readCertificate(ctx context.Context, cert, key string, show func(tls.Certificate) error) error {
	file, err := reload.Open(ctx, "serving certificate", func(_ context.Context, contents [][]byte) error {
		pair, err := tls.X509KeyPair(contents[0], contents[1])
		if err != nil {
			return err
		}
		return show(pair)
	}, cert, key)
	if err == nil {
		s.files = append(s.files, file)
	}
	return err
}

// InviteClients requests client certificates that the server's own authority or further ones, in
// PEM, have signed, and returns the pool of all of them.
func (s *socket) InviteClients(further []byte) *x509.CertPool {
	pool := s.credentials.ClientCAs()
	pool.AppendCertsFromPEM(further)
	s.secure.Invite(pool)
	return pool
}

// inviteProxies requests certificates of proxies, signed by authorities in PEM.
func (s *socket) inviteProxies(pem []byte) { s.secure.InviteProxies(pem) }

// authorityPEM returns the certificate, in PEM, of the authority that signs client certificates.
func (s *socket) authorityPEM() []byte { return s.credentials.AuthorityPEM() }

// rootCA returns the certificate by which clients verify the server, in PEM; nil without a socket.
func (s *socket) rootCA() []byte {
	if s == nil {
		return nil
	}
	return s.credentials.RootCA()
}

// authority returns the authority that signs client certificates; nil without a socket, to which no
// client could present one.
func (s *socket) authority() *pki.Authority {
	if s == nil {
		return nil
	}
	return s.credentials.Authority()
}

func (s *socket) serve(h http.Handler, log *slog.Logger, failed func()) {
	s.server = transport.NewServer(h, log)
	s.server.RetryAfter = s.retryAfter
	s.server.ConnContext = func(ctx context.Context, _ net.Conn) context.Context { return authn.ConnContext(ctx) }
	s.server.BoundConnections(cmp.Or(s.serving.MaxStreams, transport.DefaultMaxStreams))
	s.server.Start(transport.Secure(s.listener, s.secure.Config()), failed)
}

// announce writes the kubeconfig. Programs wait for the file as a sign that the server is ready.
func (s *socket) announce(opts Options) error {
	if opts.Kubeconfig == "" {
		return nil
	}
	s.announcing.Lock()
	defer s.announcing.Unlock()
	if err := pki.WriteFile(opts.Kubeconfig, *s.kubeconfig.Load()); err != nil {
		return err
	}
	s.announced = opts.Kubeconfig
	return nil
}

// stop drains the connections until ctx is done. It removes the kubeconfig first, since the file
// means that the server is ready.
func (s *socket) stop(ctx context.Context) error {
	var left error
	s.announcing.Lock()
	if s.announced != "" {
		if err := os.Remove(s.announced); !errors.Is(err, fs.ErrNotExist) {
			left = err
		}
		s.announced = ""
	}
	s.announcing.Unlock()
	return errors.Join(s.server.Stop(ctx), left)
}

// close closes a socket that does not serve yet. stop closes one that does.
func (s *socket) close() {
	if s.server == nil {
		s.listener.Close()
	}
}
