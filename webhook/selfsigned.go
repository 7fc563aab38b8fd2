package webhook

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"slices"
	"time"
)

// maxAuthorities is the limit of authorities in a bundle: the newest one, and those whose
// certificates may still be in use.
const maxAuthorities = 5

// selfSigned is a certificate for hosts, its key, and the authorities to trust, all in PEM. The
// first authority has signed this certificate only: its key is discarded.
type selfSigned struct {
	cert, key, bundle []byte
	tls               tls.Certificate
}

// newSelfSigned returns an authority and a certificate that are valid from now, for validity. The
// bundle consists of the authority and the authorities of another bundle that have not expired.
func newSelfSigned(hosts []string, validity time.Duration, now time.Time, others []byte) (*selfSigned, error) {
	if len(hosts) == 0 {
		return nil, errors.New("no hosts for the certificate")
	}
	authority := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "webhook-ca", SerialNumber: now.UTC().Format(time.RFC3339)},
		KeyUsage:              x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	server := &x509.Certificate{
		Subject:     pkix.Name{CommonName: "webhook"},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			server.IPAddresses = append(server.IPAddresses, ip)
		} else {
			server.DNSNames = append(server.DNSNames, host)
		}
	}
	for _, template := range []*x509.Certificate{authority, server} {
		template.NotBefore = now.Add(-time.Hour) // clocks differ
		template.NotAfter = now.Add(validity)
		var err error
		if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
			return nil, err
		}
	}
	authorityKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serverKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	authorityDER, err := x509.CreateCertificate(rand.Reader, authority, authority, authorityKey.Public(), authorityKey)
	if err != nil {
		return nil, err
	}
	if authority, err = x509.ParseCertificate(authorityDER); err != nil {
		return nil, err
	}
	serverDER, err := x509.CreateCertificate(rand.Reader, server, authority, serverKey.Public(), authorityKey)
	if err != nil {
		return nil, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(serverKey)
	if err != nil {
		return nil, err
	}
	bundle := []*x509.Certificate{authority}
	for _, other := range parseBundle(others) {
		if now.Before(other.NotAfter) && len(bundle) < maxAuthorities {
			bundle = append(bundle, other)
		}
	}
	made := &selfSigned{
		cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: serverDER}),
		key:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}),
	}
	for _, ca := range bundle {
		made.bundle = append(made.bundle, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Raw})...)
	}
	made.tls, err = tls.X509KeyPair(made.cert, made.key)
	return made, err
}

// parseSelfSigned decodes a stored certificate. It may have expired: see check.
func parseSelfSigned(cert, key, bundle []byte) (*selfSigned, error) {
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	return &selfSigned{cert: cert, key: key, bundle: bundle, tls: pair}, nil
}

// check returns an error if the certificate is not valid for hosts at a time.
func (s *selfSigned) check(hosts []string, now time.Time) error {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(s.bundle)
	if _, err := s.tls.Leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now}); err != nil {
		return err
	}
	for _, host := range hosts {
		if err := s.tls.Leaf.VerifyHostname(host); err != nil {
			return err
		}
	}
	return nil
}

// due returns the reason to replace the certificate: it is not valid, or at most a third of its
// lifetime is left.
func (s *selfSigned) due(hosts []string, now time.Time) error {
	if err := s.check(hosts, now); err != nil {
		return err
	}
	leaf := s.tls.Leaf
	if left := leaf.NotAfter.Sub(now); left <= leaf.NotAfter.Sub(leaf.NotBefore)/3 {
		return fmt.Errorf("it expires in %v", left.Round(time.Second))
	}
	return nil
}

// hosts returns the hosts of the certificate and others, without duplicates.
func (s *selfSigned) hosts(others []string) []string {
	all := slices.Clone(others)
	add := func(host string) {
		if !slices.Contains(all, host) {
			all = append(all, host)
		}
	}
	for _, name := range s.tls.Leaf.DNSNames {
		add(name)
	}
	for _, ip := range s.tls.Leaf.IPAddresses {
		add(ip.String())
	}
	return all
}

func (s *selfSigned) equal(other *selfSigned) bool {
	return bytes.Equal(s.cert, other.cert) && bytes.Equal(s.bundle, other.bundle)
}

// parseBundle returns the certificates of a bundle. It skips other blocks.
func parseBundle(bundle []byte) []*x509.Certificate {
	var all []*x509.Certificate
	for {
		var block *pem.Block
		if block, bundle = pem.Decode(bundle); block == nil {
			return all
		}
		if cert, err := x509.ParseCertificate(block.Bytes); err == nil {
			all = append(all, cert)
		}
	}
}
