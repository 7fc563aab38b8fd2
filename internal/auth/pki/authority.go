package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"time"
)

// An Authority signs certificates of clients, who are then trusted.
type Authority struct{ pair pair }

// Authority returns who has signed the credentials.
func (c *Credentials) Authority() *Authority { return &Authority{c.authority} }

// ReadAuthority returns the authority in the directory of a server, which may run or not. It makes none.
func ReadAuthority(dir string, now time.Time) (*Authority, error) {
	data, err := os.ReadFile(filepath.Join(dir, "ca.pem"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no authority in %s: %w", dir, err)
	}
	if err != nil {
		return nil, err
	}
	p, err := parsePair(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, "ca.pem"), err)
	}
	if !p.cert.IsCA || !p.holds(now, 0) {
		return nil, fmt.Errorf("%s is no authority, or not now: it is valid from %v to %v", filepath.Join(dir, "ca.pem"), p.cert.NotBefore, p.cert.NotAfter)
	}
	return &Authority{p}, nil
}

// ReadRoot returns the authority of a root, see [NewRoot].
func ReadRoot(root []byte, now time.Time) (*Authority, error) {
	p, _, err := parseRoot(root, now)
	if err != nil {
		return nil, err
	}
	return &Authority{p}, nil
}

// NotAfter is when the authority ends.
func (a *Authority) NotAfter() time.Time { return a.pair.cert.NotAfter }

// Issue signs a certificate for a key. The template says whose it is, what for, and for how long, which is no longer than
// the authority holds; the serial number is not its to choose.
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

// A Client is a certificate with its key, and the authority that makes it known, all in PEM.
type Client struct {
	Certificate, Key, Authority []byte
	NotAfter                    time.Time
}

// Client makes a key and a certificate for a user of some groups.
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

// newSerial returns a positive number that no other certificate has.
func newSerial() (*big.Int, error) {
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	return n.Add(n, big.NewInt(1)), nil
}

// NewRequest makes a key, and a request for a certificate of a user of some groups, both in PEM.
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
