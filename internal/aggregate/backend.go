package aggregate

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	"github.com/kapok-dev/kapok/internal/forward"
)

// A backend is a service with one way of connecting to it. It can serve several group versions.
type backend struct {
	key      backendKey
	scheme   string // of URLs
	resolver func(namespace, name string, port int32) (string, error)

	forward.Transports
	broken error // why its configuration cannot be used; nil if it can
}

// A backendKey has everything that distinguishes connections.
type backendKey struct {
	namespace, name string
	port            int32
	caBundle        string
	insecure        bool
}

func keyOf(r *registration) backendKey {
	s := r.Spec.Service
	return backendKey{s.Namespace, s.Name, r.port(), string(r.Spec.CABundle), r.Spec.InsecureSkipTLSVerify}
}

// A ClientCertificate returns the certificate that identifies this server as a front proxy, which
// asserts the names of its users. It is called for each connection.
type ClientCertificate func(*tls.CertificateRequestInfo) (*tls.Certificate, error)

func newBackend(k backendKey, d *forward.Dialer, o *Options) *backend {
	b := &backend{key: k, scheme: "https", resolver: o.Services.Resolve}
	secure := &tls.Config{
		MinVersion:           tls.VersionTLS12,
		ServerName:           k.name + "." + k.namespace + ".svc",
		InsecureSkipVerify:   k.insecure, // as the APIService configures
		GetClientCertificate: o.ClientCertificate,
	}
	if k.caBundle != "" {
		secure.RootCAs = x509.NewCertPool()
		if !secure.RootCAs.AppendCertsFromPEM([]byte(k.caBundle)) {
			b.broken = errors.New("unable to load root certificates: unable to parse bytes as PEM block")
		}
	}
	b.Transports = d.Transports(secure)
	return b
}

// resolve returns the address of the service, HOST:PORT.
func (b *backend) resolve() (string, error) {
	return b.resolver(b.key.namespace, b.key.name, b.key.port)
}

func (k backendKey) String() string { return fmt.Sprintf("%s/%s:%d", k.namespace, k.name, k.port) }
