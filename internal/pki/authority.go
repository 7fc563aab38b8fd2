package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io/fs"
	"math/big"
	"path/filepath"
	"time"
)

// An Authority signs client certificates, which the server trusts. It is immutable and safe for
// concurrent use.
type Authority struct{ pair pair }

// Authority returns the authority that signed the credentials.
func (c *Credentials) Authority() *Authority { return &Authority{c.authority} }

// ReadAuthority returns the authority in the directory of a server, running or not. It returns an
// error if there is none, or if it is not valid now; it creates nothing.
func ReadAuthority(dir string, now time.Time) (*Authority, error) {
	p, _, err := store{dir}.findAuthority("ca")
	switch {
	case err != nil:
		return nil, err
	case p == nil:
		return nil, fmt.Errorf("there is no authority in %s: %w", dir, fs.ErrNotExist)
	case !p.cert.IsCA || !p.holds(now, 0):
		return nil, fmt.Errorf("%s is not the certificate of an authority, or not valid now: it is valid from %v to %v", filepath.Join(dir, "ca.crt"), p.cert.NotBefore, p.cert.NotAfter)
	}
	return &Authority{*p}, nil
}

// NotAfter returns the end of the authority's validity.
func (a *Authority) NotAfter() time.Time { return a.pair.cert.NotAfter }

// Issue signs a certificate for a key. The template has the subject, the usages and the validity,
// which is cut off at the authority's end. The serial number is always random.
func (a *Authority) Issue(template *x509.Certificate, key crypto.PublicKey) (der []byte, err error) {
	signed := *template
	signed.BasicConstraintsValid, signed.IsCA = true, false
	if signed.NotAfter.After(a.pair.cert.NotAfter) {
		signed.NotAfter = a.pair.cert.NotAfter
	}
	if signed.SerialNumber, err = newSerial(); err != nil {
		return nil, err
	}
	return x509.CreateCertificate(rand.Reader, &signed, a.pair.cert, key, a.pair.key)
}

// A Client is a client certificate with its key, and the certificate of the authority, all in PEM.
type Client struct {
	Certificate, Key, Authority []byte
	NotAfter                    time.Time
}

// Client creates a key and a certificate for a user and groups, valid for life from now on.
func (a *Authority) Client(user string, groups []string, life time.Duration, now time.Time) (*Client, error) {
	template := client(user, groups...)
	template.NotAfter = now.Add(life)
	p, err := sign(template, &a.pair, now)
	if err != nil {
		return nil, err
	}
	key, err := p.keyPEM()
	if err != nil {
		return nil, err
	}
	return &Client{Certificate: p.certPEM(), Key: key, Authority: a.pair.certPEM(), NotAfter: p.cert.NotAfter}, nil
}

// newSerial returns a random positive number, which is unique for all practical purposes.
func newSerial() (*big.Int, error) {
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	return n.Add(n, big.NewInt(1)), nil
}

// NewRequest creates a key, and a certificate signing request for a user and groups, both in PEM.
func NewRequest(user string, groups []string) (key, request []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	if key, err = (pair{key: private}).keyPEM(); err != nil {
		return nil, nil, err
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: client(user, groups...).Subject}, private)
	if err != nil {
		return nil, nil, err
	}
	return key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), nil
}
