package transport

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// A NamedCertificate is a certificate for clients that connect to one of its names.
type NamedCertificate struct {
	// CertFile and KeyFile are files in PEM, as those of ServingOptions. Both are required.
	CertFile, KeyFile string
	// Names are DNS names in lower case, such as kapok.example.com and *.example.com, which stands
	// for one label. Default: the DNS names in the certificate.
	Names []string
}

func (c *NamedCertificate) validate() error {
	if c.CertFile == "" || c.KeyFile == "" {
		return fmt.Errorf("Options.Serving.Named has CertFile %q and KeyFile %q: set both", c.CertFile, c.KeyFile)
	}
	for _, name := range c.Names {
		if len(validation.IsDNS1123Subdomain(name)) > 0 && len(validation.IsWildcardDNS1123Subdomain(name)) > 0 {
			return fmt.Errorf("Options.Serving.Named has the name %q: want a DNS name in lower case, like kapok.example.com or *.example.com", name)
		}
	}
	return nil
}

// named are the certificates of ServingOptions.Named. The value is immutable, so that handshakes
// read it without a lock.
type named struct {
	listed       [][]string // names by the options
	certificates []tls.Certificate
	byName       map[string]*tls.Certificate
}

func newNamed(options []NamedCertificate) named {
	n := named{certificates: make([]tls.Certificate, len(options))}
	for _, o := range options {
		n.listed = append(n.listed, o.Names)
	}
	return n
}

// with returns a copy in which a certificate is replaced.
func (n named) with(i int, cert tls.Certificate) (named, error) {
	if len(n.listed[i]) == 0 && len(dnsNames(&cert)) == 0 {
		return n, errors.New("the certificate has no DNS names: list the names to present it for")
	}
	next := named{listed: n.listed, certificates: slices.Clone(n.certificates), byName: map[string]*tls.Certificate{}}
	next.certificates[i] = cert
	for i := range next.certificates {
		next.add(next.listed[i], &next.certificates[i])
	}
	for i, names := range next.listed {
		if len(names) == 0 {
			next.add(dnsNames(&next.certificates[i]), &next.certificates[i])
		}
	}
	return next, nil
}

// add adds the names that no earlier certificate has.
func (n named) add(names []string, cert *tls.Certificate) {
	for _, name := range names {
		if n.byName[name] == nil && len(cert.Certificate) > 0 {
			n.byName[name] = cert
		}
	}
}

// find is a callback for tls.Config.GetCertificate. Without a certificate for the name, the client
// gets the one of TLS.Show.
func (n named) find(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	name := strings.ToLower(strings.TrimSuffix(hello.ServerName, "."))
	if cert := n.byName[name]; cert != nil {
		return cert, nil
	}
	if _, parent, found := strings.Cut(name, "."); found {
		return n.byName["*."+parent], nil
	}
	return nil, nil
}

// dnsNames returns the DNS names in a certificate; if it has none, its common name.
func dnsNames(cert *tls.Certificate) []string {
	if len(cert.Certificate) == 0 {
		return nil
	}
	leaf, err := x509.ParseCertificate(cert.Certificate[0])
	if err != nil {
		return nil
	}
	names := leaf.DNSNames
	if common := leaf.Subject.CommonName; len(names) == 0 && len(validation.IsDNS1123Subdomain(common)) == 0 {
		names = []string{common}
	}
	lower := make([]string, len(names))
	for i, name := range names {
		lower[i] = strings.ToLower(name)
	}
	return lower
}
