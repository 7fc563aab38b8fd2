package pki

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"time"
)

// FrontProxyName is the common name of the certificate with which a server acts as a front proxy
// for other servers.
const FrontProxyName = "front-proxy-client"

// A FrontProxy authenticates this server to other servers as a front proxy, which asserts the names
// of users. It has an authority of its own: a client certificate of the other authority must not
// allow its holder to impersonate users.
type FrontProxy struct{ authority, client pair }

// OpenFrontProxy returns the front proxy in a directory, or one in memory only, as [Open] does.
func OpenFrontProxy(dir string, now time.Time) (*FrontProxy, error) {
	store := store{dir}
	if err := store.prepare(); err != nil {
		return nil, err
	}
	f := &FrontProxy{}
	var err error
	f.authority, err = store.authority("front-proxy-ca",
		func(p pair) bool { return p.cert.IsCA && p.lasts(now, leafLife) },
		func() (pair, error) {
			template := authority(fmt.Sprintf("kapok-front-proxy-ca@%d", now.Unix()), now)
			return sign(template, nil, now)
		})
	if err != nil {
		return nil, err
	}
	f.client, err = store.pair("front-proxy.pem",
		func(p pair) bool { return p.holds(now, leafReserve) && p.signedBy(f.authority) },
		func() (pair, error) { return newLeaf(client(FrontProxyName), f.authority, now) })
	return f, err
}

// authority returns the template of an authority's certificate.
func authority(name string, now time.Time) *x509.Certificate {
	return &x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		NotAfter:              now.Add(authorityLife),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		IsCA:                  true,
		BasicConstraintsValid: true,
		MaxPathLenZero:        true,
	}
}

// AuthorityPEM returns the authority's certificate, which other servers must trust.
func (f *FrontProxy) AuthorityPEM() []byte { return f.authority.certPEM() }

// Certificate returns the client certificate.
func (f *FrontProxy) Certificate() *tls.Certificate {
	return &tls.Certificate{Certificate: [][]byte{f.client.cert.Raw}, PrivateKey: f.client.key, Leaf: f.client.cert}
}
