// Package pki keeps the credentials with which server and clients authenticate each other: an
// authority, a serving certificate, an admin's client certificate and token, and the kubeconfig
// that has them for clients.
//
// [Open] creates what is missing, keeps what is valid, and renews certificates that are near their
// end, no longer signed by the authority, or do not name the hosts that are served. With a
// directory, the files are:
//
//	ca.crt      the certificate of the authority, which clients need to trust the server
//	ca.key      the key of the authority
//	server.pem  the serving certificate and its key
//	admin.pem   a client certificate of group system:masters and its key
//	token       a bearer token with the same rights
//	service-account.pem  the key that signs tokens of service accounts ([SigningKey])
//
// [OpenFrontProxy] does the same for front-proxy-ca.crt, front-proxy-ca.key and front-proxy.pem,
// with which the server acts as a front proxy.
//
// The certificates of authorities are given to clients, and so are in files without keys. All other
// certificates share a file with their key. Files are replaced atomically, and only their owner can
// read those with secrets. Write access to the directory gives control of the server; the package
// expects one process at a time in it.
//
// Servers on one journal share a root: the authority and the token.
//
// All keys are ECDSA P-256. The package starts no goroutine and has no locks.
package pki

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/internal/authn"
)

// How long certificates are valid, and the remaining validity below which they are renewed.
const (
	authorityLife = 10 * 365 * 24 * time.Hour
	leafLife      = 2 * 365 * 24 * time.Hour
	leafReserve   = 365 * 24 * time.Hour
	// authorityBackdate is the time before its creation from which an authority is valid, because
	// the clock may be set back.
	authorityBackdate = 30 * 24 * time.Hour
)

// Credentials are an authority and the certificates that it signed. They are immutable, except for
// Renew.
type Credentials struct {
	store     store
	hosts     []string
	authority pair
	serving   pair
	admin     pair
	token     string
}

// Open returns the credentials in a directory, and creates what is missing. With an empty name it
// creates credentials in memory only. Hosts are the names or IP addresses that the serving
// certificate must have. The authority and the token are those of root ([NewRoot]), unless it is
// nil.
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
		c.authority, err = store.authority("ca",
			func(p pair) bool { return p.cert.IsCA && p.lasts(now, leafLife) },
			func() (pair, error) { return newAuthority(now) })
	}
	if err != nil {
		return nil, err
	}
	return c, c.sign(now)
}

// Renew creates new certificates if one of the present ones ends within leafReserve, and reports
// whether it did; authority and token stay. It must not run concurrently with other methods.
func (c *Credentials) Renew(now time.Time) (renewed bool, err error) {
	if c.serving.holds(now, leafReserve) && c.admin.holds(now, leafReserve) {
		return false, nil
	}
	if end := c.authority.cert.NotAfter; now.Add(leafReserve).After(end) {
		return false, nil // new certificates would end as early
	}
	return true, c.sign(now)
}

// sign creates the certificates that are missing or near their end.
func (c *Credentials) sign(now time.Time) (err error) {
	c.serving, err = c.store.pair("server.pem",
		func(p pair) bool { return p.holds(now, leafReserve) && p.signedBy(c.authority) && p.names(c.hosts) },
		func() (pair, error) { return newLeaf(serving(c.hosts), c.authority, now) })
	if err != nil {
		return err
	}
	c.admin, err = c.store.pair("admin.pem",
		func(p pair) bool { return p.holds(now, leafReserve) && p.signedBy(c.authority) },
		func() (pair, error) { return newLeaf(client(authn.AdminName, authn.Masters), c.authority, now) })
	return err
}

// ClientCAs returns the authorities whose client certificates the server trusts.
func (c *Credentials) ClientCAs() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(c.authority.cert)
	return pool
}

// AuthorityPEM returns the certificate of the authority of client certificates.
func (c *Credentials) AuthorityPEM() []byte { return c.authority.certPEM() }

// ServingCertificate returns the server's certificate.
func (c *Credentials) ServingCertificate() tls.Certificate {
	return tls.Certificate{
		Certificate: [][]byte{c.serving.cert.Raw, c.authority.cert.Raw},
		PrivateKey:  c.serving.key,
		Leaf:        c.serving.cert,
	}
}

// Token returns the admin's bearer token.
func (c *Credentials) Token() string { return c.token }

// A store is a directory of credentials; with an empty name it stores nothing.
type store struct{ dir string }

func (s store) prepare() error {
	if s.dir == "" {
		return nil
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	if err := os.Chmod(s.dir, 0o700); err != nil {
		return err
	}
	// After a power cut the files exist only if the entry of their directory is durable.
	return syncDir(filepath.Dir(s.dir))
}

// pair reads a certificate and its key. If there are none, or good rejects them, it creates and
// stores new ones.
func (s store) pair(name string, good func(pair) bool, make func() (pair, error)) (pair, error) {
	data, err := s.read(name)
	if err != nil {
		return pair{}, err
	}
	if data != nil {
		p, err := parsePair(data)
		if err != nil {
			return pair{}, s.bad(name, err)
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
	rand.Read(random) // rand.Read never fails
	return base64.RawURLEncoding.EncodeToString(random)
}

// read returns the content of a file, nil if there is none. It restricts the file to its owner,
// unless it is a certificate.
func (s store) read(name string) ([]byte, error) {
	if s.dir == "" {
		return nil, nil
	}
	data, err := os.ReadFile(s.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil || filepath.Ext(name) == ".crt" {
		return data, err
	}
	return data, os.Chmod(s.path(name), 0o600)
}

func (s store) write(name string, data []byte) error {
	if s.dir == "" {
		return nil
	}
	return WriteFile(s.path(name), data)
}
