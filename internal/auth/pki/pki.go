// Package pki holds what a server needs so that clients can trust it and be
// trusted: an authority, a serving certificate, an admin's certificate and token,
// and the kubeconfig that hands them to a client.
//
// [Open] makes what is missing, keeps what still holds, and renews what is near
// its end, no longer signed by the authority, or no longer names the hosts that
// are served. With a directory, it lies there:
//
//	ca.pem      the authority and its key
//	server.pem  the serving certificate and its key
//	admin.pem   a client certificate of group system:masters and its key
//	token       a bearer token of the same power
//	service-account.pem  the key that signs tokens of service accounts ([SigningKey])
//
// [OpenFrontProxy] does the same for front-proxy-ca.pem and front-proxy.pem, with which the server speaks for its users.
//
// A certificate and its key share a file, so that no crash can part them. Files
// are replaced whole, and only their owner can read them. Who can write to the
// directory owns the server; the package expects one process at a time in it.
//
// Servers that stand for one another share a root: the authority and the token.
//
// All keys are ECDSA P-256. The package starts no goroutine.
package pki

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/internal/auth"
)

// How long things hold, and how much of that must be left at a start.
const (
	authorityLife = 10 * 365 * 24 * time.Hour
	leafLife      = 2 * 365 * 24 * time.Hour
	leafReserve   = 365 * 24 * time.Hour
)

// Credentials are an authority and what it has signed. They do not change but by Renew.
type Credentials struct {
	store     store
	hosts     []string
	authority pair
	serving   pair
	admin     pair
	token     string
}

// Open returns the credentials that lie in a directory, which it makes if need
// be; with an empty name it makes new ones that are nowhere but in memory. Hosts
// are what the serving certificate must be good for: names or IP addresses. The
// authority and the token are those of a root ([NewRoot]), if there is one.
func Open(dir string, root []byte, hosts []string, now time.Time) (*Credentials, error) {
	store := store{dir}
	if err := store.prepare(); err != nil {
		return nil, err
	}
	c := &Credentials{store: store, hosts: hosts}
	var err error
	if root != nil {
		c.authority, c.token, err = parseRoot(root, now)
	} else if c.token, err = store.secret("token"); err == nil {
		c.authority, err = store.pair("ca.pem",
			func(p pair) bool { return p.cert.IsCA && p.holds(now, leafLife) },
			func() (pair, error) { return newAuthority(now) })
	}
	if err != nil {
		return nil, err
	}
	return c, c.sign(now)
}

// Renew makes new certificates if one of those of before ends within leafReserve; authority and token stay. Nobody else may
// use the credentials meanwhile.
func (c *Credentials) Renew(now time.Time) (renewed bool, err error) {
	if c.serving.holds(now, leafReserve) && c.admin.holds(now, leafReserve) {
		return false, nil
	}
	if end := c.authority.cert.NotAfter; now.Add(leafReserve).After(end) {
		return false, nil // new ones would end as early
	}
	return true, c.sign(now)
}

// sign makes what the authority has not signed yet, or what is near its end.
func (c *Credentials) sign(now time.Time) (err error) {
	c.serving, err = c.store.pair("server.pem",
		func(p pair) bool { return p.holds(now, leafReserve) && p.signedBy(c.authority) && p.names(c.hosts) },
		func() (pair, error) { return newLeaf(serving(c.hosts), c.authority, now) })
	if err != nil {
		return err
	}
	c.admin, err = c.store.pair("admin.pem",
		func(p pair) bool { return p.holds(now, leafReserve) && p.signedBy(c.authority) },
		func() (pair, error) { return newLeaf(client(auth.AdminName, auth.Masters), c.authority, now) })
	return err
}

// ClientCAs returns the authorities whose client certificates are trusted.
func (c *Credentials) ClientCAs() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(c.authority.cert)
	return pool
}

// AuthorityPEM returns the certificate of the authority that signs those of clients.
func (c *Credentials) AuthorityPEM() []byte { return c.authority.certPEM() }

// ServingCertificate returns the certificate to serve with.
func (c *Credentials) ServingCertificate() tls.Certificate {
	return tls.Certificate{
		Certificate: [][]byte{c.serving.cert.Raw, c.authority.cert.Raw},
		PrivateKey:  c.serving.key,
		Leaf:        c.serving.cert,
	}
}

// Token returns the admin's bearer token.
func (c *Credentials) Token() string { return c.token }

// store is a directory of credentials; with an empty name it keeps nothing.
type store struct{ dir string }

func (s store) prepare() error {
	if s.dir == "" {
		return nil
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	return os.Chmod(s.dir, 0o700)
}

// pair reads a certificate and its key, and makes and stores new ones if there
// are none or the old ones no longer do.
func (s store) pair(name string, good func(pair) bool, make func() (pair, error)) (pair, error) {
	data, err := s.read(name)
	if err != nil {
		return pair{}, err
	}
	if data != nil {
		p, err := parsePair(data)
		if err != nil {
			return pair{}, fmt.Errorf("%s: %w (remove the file to have a new one made)", filepath.Join(s.dir, name), err)
		}
		if good(p) {
			return p, nil
		}
	}
	p, err := make()
	if err != nil {
		return pair{}, err
	}
	data, err = p.encode()
	if err != nil {
		return pair{}, err
	}
	return p, s.write(name, data)
}

func (s store) secret(name string) (string, error) {
	data, err := s.read(name)
	if err != nil {
		return "", err
	}
	if secret := strings.TrimSpace(string(data)); secret != "" {
		return secret, nil
	}
	secret := newSecret()
	return secret, s.write(name, []byte(secret+"\n"))
}

func newSecret() string {
	random := make([]byte, 32)
	rand.Read(random) // never fails
	return base64.RawURLEncoding.EncodeToString(random)
}

// read returns nil if there is no such file. It takes from others what they
// should not have been given.
func (s store) read(name string) ([]byte, error) {
	if s.dir == "" {
		return nil, nil
	}
	path := filepath.Join(s.dir, name)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return data, os.Chmod(path, 0o600)
}

func (s store) write(name string, data []byte) error {
	if s.dir == "" {
		return nil
	}
	return WriteFile(filepath.Join(s.dir, name), data)
}
