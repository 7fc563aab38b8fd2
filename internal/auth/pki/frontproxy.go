package pki

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"time"
)

// FrontProxyName is the common name of the certificate with which a server speaks for its users to other servers.
const FrontProxyName = "front-proxy-client"

// A FrontProxy is what a server shows to other servers so that they believe it who its users are. Its authority is one of
// its own: who has a certificate of the other one must not be able to pass for anybody.
type FrontProxy struct{ authority, client pair }

// OpenFrontProxy returns the front proxy of a directory, or one that is nowhere but in memory, as [Open] does.
func OpenFrontProxy(dir string, now time.Time) (*FrontProxy, error) {
	store := store{dir}
	if err := store.prepare(); err != nil {
		return nil, err
	}
	f := &FrontProxy{}
	var err error
	f.authority, err = store.pair("front-proxy-ca.pem",
		func(p pair) bool { return p.cert.IsCA && p.holds(now, leafLife) },
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

// authority describes a certificate that signs others.
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

// AuthorityPEM returns the authority's certificate, for those who are to believe.
func (f *FrontProxy) AuthorityPEM() []byte { return f.authority.certPEM() }

// Certificate returns the client certificate to show.
func (f *FrontProxy) Certificate() *tls.Certificate {
	return &tls.Certificate{Certificate: [][]byte{f.client.cert.Raw}, PrivateKey: f.client.key, Leaf: f.client.cert}
}
