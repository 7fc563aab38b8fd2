package kapok

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// ServingOptions are how the server says who it is, and how connections are encrypted.
type ServingOptions struct {
	// CertFile and KeyFile are the certificate, with those between it and its authority, and its key in PEM. Default: one that
	// the server's own authority has signed. The kubeconfig of the admin trusts that authority, and so is good only where
	// the certificate is signed by it.
	CertFile, KeyFile string
	// MinVersion is VersionTLS12, the default, or VersionTLS13.
	MinVersion string
	// CipherSuites are the names of those that are used up to TLS 1.2. Default: Go's.
	CipherSuites []string
}

// check refuses what cannot be, in kube-apiserver's words where it does so, too.
func (o *ServingOptions) check() error {
	if (o.CertFile == "") != (o.KeyFile == "") {
		return errors.New("a serving certificate needs both its file and that of its key")
	}
	if _, err := o.version(); err != nil {
		return err
	}
	_, err := o.suites()
	return err
}

func (o *ServingOptions) version() (uint16, error) {
	switch o.MinVersion {
	case "", "VersionTLS12":
		return tls.VersionTLS12, nil
	case "VersionTLS13":
		return tls.VersionTLS13, nil
	case "VersionTLS10", "VersionTLS11":
		return 0, fmt.Errorf("tls version %q is broken: want VersionTLS12 or VersionTLS13", o.MinVersion)
	}
	return 0, fmt.Errorf("unknown tls version %q", o.MinVersion)
}

func (o *ServingOptions) suites() ([]uint16, error) {
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

// secure is the TLS of the socket. What it shows and whom it invites may change; connections keep what they began with.
type secure struct {
	mu      sync.Mutex // orders changes
	current atomic.Pointer[tls.Config]
	proxies []byte // authorities of servers in front of this one, in PEM. Guarded by mu
}

// newSecure expects options that have been checked.
func newSecure(o *ServingOptions) *secure {
	s := &secure{}
	version, _ := o.version()
	suites, _ := o.suites()
	s.current.Store(&tls.Config{
		MinVersion:   version,
		CipherSuites: suites,
		NextProtos:   []string{"h2", "http/1.1"},
		// Who shows none may have a token; what it is worth is judged by auth.
		ClientAuth: tls.RequestClientCert,
	})
	return s
}

// config is that of the listener.
func (s *secure) config() *tls.Config {
	return &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return s.current.Load(), nil }}
}

// show presents a certificate to who connects from now on.
func (s *secure) show(cert tls.Certificate) {
	s.change(func(c *tls.Config) { c.Certificates = []tls.Certificate{cert} })
}

// invite tells clients whose certificates they may show.
func (s *secure) invite(authorities *x509.CertPool) {
	s.change(func(c *tls.Config) {
		c.ClientCAs = authorities.Clone()
		c.ClientCAs.AppendCertsFromPEM(s.proxies)
	})
}

// inviteProxies also tells servers in front of this one, whose authorities are in PEM.
func (s *secure) inviteProxies(authorities []byte) {
	s.change(func(c *tls.Config) {
		s.proxies = authorities
		if c.ClientCAs == nil {
			c.ClientCAs = x509.NewCertPool()
		}
		c.ClientCAs = c.ClientCAs.Clone()
		c.ClientCAs.AppendCertsFromPEM(authorities)
	})
}

func (s *secure) change(change func(*tls.Config)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := s.current.Load().Clone()
	change(next)
	s.current.Store(next)
}
