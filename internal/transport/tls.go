package transport

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/util/validation"
)

// ServingOptions configure the serving certificate and TLS.
type ServingOptions struct {
	// CertFile and KeyFile are files in PEM: the certificate, followed by intermediate ones, and
	// its key. Default: a certificate that the server's own authority has signed. The admin's
	// kubeconfig trusts only that authority: it does not work with a certificate of another one.
	CertFile, KeyFile string
	// Names are DNS names, like *.example.com or kapok.example.com, and IP addresses by which
	// clients reach the server, in addition to those that a certificate of the server's own CA
	// always has: of this machine, of Options.Listen, and of the service kubernetes. A stored
	// certificate that lacks one is reissued at the start. CertFile must not be set.
	Names []string
	// Named are further certificates, for clients that connect to one of their names (SNI). The first
	// one that has a name counts, and names that are listed before those inside of certificates.
	Named []NamedCertificate
	// MinVersion is VersionTLS12, the default, or VersionTLS13.
	MinVersion string
	// CipherSuites are the names of the cipher suites for TLS up to 1.2. Default: those with
	// forward secrecy and authenticated encryption, which are ECDHE with AES-GCM or
	// ChaCha20-Poly1305.
	CipherSuites []string
	// CurvePreferences are the numbers of the key exchanges that are allowed, as crypto/tls.CurveID
	// has them: 23 for P-256, 29 for X25519, 4588 for X25519MLKEM768. Their order has no effect.
	// Default: those of Go.
	CurvePreferences []int
	// SharePort lets other processes of the same user listen on the same port of Options.Listen
	// (SO_REUSEPORT): the operating system spreads connections over them. On systems without it, such
	// as Windows, the server does not start.
	SharePort bool
	// NoHTTP2 restricts clients to HTTP/1.1.
	NoHTTP2 bool
	// MaxStreams limits the concurrent requests of one HTTP/2 connection. Default 100.
	MaxStreams int
}

// DefaultMaxStreams is the default of ServingOptions.MaxStreams, as in kube-apiserver.
const DefaultMaxStreams = 100

// Validate rejects invalid options, with kube-apiserver's messages where it also rejects them.
func (o *ServingOptions) Validate() error {
	if (o.CertFile == "") != (o.KeyFile == "") {
		return fmt.Errorf("Options.Serving.CertFile is %q and KeyFile is %q: set both or neither", o.CertFile, o.KeyFile)
	}
	if len(o.Names) > 0 && o.CertFile != "" {
		return fmt.Errorf("Options.Serving.Names is %q but CertFile is set: remove Names, since a certificate from a file cannot get more names", o.Names)
	}
	for _, name := range o.Names {
		if _, err := netip.ParseAddr(name); err == nil && !strings.Contains(name, "%") {
			continue
		}
		if len(validation.IsDNS1123Subdomain(name)) > 0 && len(validation.IsWildcardDNS1123Subdomain(name)) > 0 {
			return fmt.Errorf("Options.Serving.Names has %q: want a DNS name in lower case, like kapok.example.com, or an IP address, without a port", name)
		}
	}
	for _, named := range o.Named {
		if err := named.validate(); err != nil {
			return err
		}
	}
	if o.MaxStreams < 0 {
		return fmt.Errorf("Options.Serving.MaxStreams is %d: it cannot be negative", o.MaxStreams)
	}
	if _, err := o.version(); err != nil {
		return err
	}
	if _, err := o.suites(); err != nil {
		return err
	}
	_, err := o.curves()
	return err
}

func (o *ServingOptions) version() (uint16, error) {
	switch o.MinVersion {
	case "", "VersionTLS12":
		return tls.VersionTLS12, nil
	case "VersionTLS13":
		return tls.VersionTLS13, nil
	case "VersionTLS10", "VersionTLS11":
		return 0, fmt.Errorf("tls version %q is not supported: want VersionTLS12 or VersionTLS13", o.MinVersion)
	}
	return 0, fmt.Errorf("unknown tls version %q", o.MinVersion)
}

// suites returns the cipher suites for TLS up to 1.2. Those of TLS 1.3 are not configurable.
func (o *ServingOptions) suites() ([]uint16, error) {
	if len(o.CipherSuites) == 0 {
		// Go's default also has suites in CBC mode.
		return []uint16{
			tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
			tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
			tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
		}, nil
	}
	var ids []uint16
	for _, name := range o.CipherSuites {
		id := uint16(0)
		for _, suite := range tls.CipherSuites() {
			if suite.Name == name {
				id = suite.ID
			}
		}
		for _, suite := range tls.InsecureCipherSuites() {
			if suite.Name == name {
				return nil, fmt.Errorf("cipher suite %s is not secure", name)
			}
		}
		if id == 0 {
			//lint:ignore ST1005 Kubernetes' words
			return nil, fmt.Errorf("Cipher suite %s not supported or doesn't exist", name)
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// curves returns the allowed key exchanges; nil for the default.
func (o *ServingOptions) curves() ([]tls.CurveID, error) {
	var ids []tls.CurveID
	for _, number := range o.CurvePreferences {
		if number < 1 || number > math.MaxUint16 {
			return nil, fmt.Errorf("curve preference %d is out of range (must be 1-%d)", number, math.MaxUint16)
		}
		id := tls.CurveID(number)
		switch {
		case strings.HasPrefix(id.String(), "CurveID("):
			return nil, fmt.Errorf("curve preference %d is not supported by the current Go version", number)
		case slices.Contains(ids, id):
			return nil, fmt.Errorf("duplicate curve preference %d", number)
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// TLS is the TLS configuration of the socket. Its certificate and the authorities for client
// certificates can change; open connections are not affected.
type TLS struct {
	mu      sync.Mutex // serializes changes
	current atomic.Pointer[tls.Config]
	proxies []byte // authorities of front proxies, in PEM; guarded by mu
	named   named  // guarded by mu
}

// NewTLS returns the TLS configuration for valid options.
func NewTLS(o *ServingOptions) *TLS {
	s := &TLS{named: newNamed(o.Named)}
	version, _ := o.version()
	suites, _ := o.suites()
	curves, _ := o.curves()
	protocols := []string{"h2", "http/1.1"}
	if o.NoHTTP2 {
		protocols = protocols[1:]
	}
	s.current.Store(&tls.Config{
		MinVersion:       version,
		CipherSuites:     suites,
		CurvePreferences: curves,
		NextProtos:       protocols,
		// A client without a certificate can have a token; the authenticator decides.
		ClientAuth: tls.RequestClientCert,
	})
	return s
}

// Config returns the configuration for the listener.
func (s *TLS) Config() *tls.Config {
	return &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return s.current.Load(), nil }}
}

// ShowNamed sets the certificate of ServingOptions.Named[i] for new connections. The error is that
// of a certificate that has no names, and whose names are not listed.
func (s *TLS) ShowNamed(i int, cert tls.Certificate) (err error) {
	s.change(func(c *tls.Config) {
		next, invalid := s.named.with(i, cert)
		if err = invalid; err != nil {
			return
		}
		s.named = next
		c.GetCertificate = next.find
	})
	return err
}

// Show sets the certificate for new connections.
func (s *TLS) Show(cert tls.Certificate) {
	s.change(func(c *tls.Config) { c.Certificates = []tls.Certificate{cert} })
}

// Invite sets the authorities whose client certificates the server requests.
func (s *TLS) Invite(authorities *x509.CertPool) {
	s.change(func(c *tls.Config) {
		c.ClientCAs = authorities.Clone()
		c.ClientCAs.AppendCertsFromPEM(s.proxies)
	})
}

// InviteProxies also requests certificates of front proxies, whose authorities are in PEM.
func (s *TLS) InviteProxies(authorities []byte) {
	s.change(func(c *tls.Config) {
		s.proxies = authorities
		if c.ClientCAs == nil {
			c.ClientCAs = x509.NewCertPool()
		}
		c.ClientCAs = c.ClientCAs.Clone()
		c.ClientCAs.AppendCertsFromPEM(authorities)
	})
}

func (s *TLS) change(change func(*tls.Config)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := s.current.Load().Clone()
	change(next)
	s.current.Store(next)
}
