package replicas

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/kapok-dev/kapok"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

// TestSecureEtcd has an etcd that requires a certificate, a user and a password.
func TestSecureEtcd(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	server, serverKey := a.issue(t, "etcd")
	client, clientKey := a.issue(t, "") // a name would be a user of etcd
	c := startCluster(t, 1, func(c *embed.Config) {
		c.ListenClientUrls[0].Scheme = "https"
		c.ClientTLSInfo = transport.TLSInfo{CertFile: server, KeyFile: serverKey, TrustedCAFile: a.file, ClientCertAuth: true}
		c.AuthToken = "simple"
	})
	pair, err := tls.LoadX509KeyPair(client, clientKey)
	if err != nil {
		t.Fatal(err)
	}
	secure := &tls.Config{RootCAs: x509.NewCertPool(), Certificates: []tls.Certificate{pair}}
	secure.RootCAs.AddCert(a.cert)
	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{"https://" + c.address(0)}, TLS: secure, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer etcd.Close()
	for _, do := range []func() error{
		func() error { _, err := etcd.UserAdd(t.Context(), "root", "open sesame"); return err },
		func() error { _, err := etcd.UserGrantRole(t.Context(), "root", "root"); return err },
		func() error { _, err := etcd.AuthEnable(t.Context()); return err },
	} {
		if err := do(); err != nil {
			t.Fatal(err)
		}
	}

	all := kapok.EtcdOptions{CAFile: a.file, CertFile: client, KeyFile: clientKey, Username: "root", Password: "open sesame"}
	servers := c.startServers(t, 2, func(o *kapok.Options) { o.Etcd = all })
	servers[0].must(t, 201, "POST", configMaps, configMap("a", "x"))
	servers[1].must(t, 200, "GET", configMaps+"/a", "")

	noName, noCertificate, wrong := all, all, all
	noName.Username, noName.Password = "", ""
	noCertificate.CertFile, noCertificate.KeyFile = "", ""
	wrong.Password = "open barley"
	for name, options := range map[string]kapok.EtcdOptions{
		"no TLS": {Username: "root", Password: "open sesame"}, "no name": noName, "no certificate": noCertificate, "wrong password": wrong,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, err := kapok.Start(t.Context(), kapok.Options{Store: "etcd://" + c.address(0), Etcd: options})
			if err == nil {
				k.Stop()
				t.Fatal("started")
			}
			t.Log(err)
		})
	}
}

// An authority issues certificates for a test.
type authority struct {
	dir, file string
	cert      *x509.Certificate
	key       *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{dir: t.TempDir()}
	var err error
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	template := a.template("authority")
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err == nil {
		a.cert, err = x509.ParseCertificate(der)
	}
	if err != nil {
		t.Fatal(err)
	}
	a.file = a.write(t, "ca.pem", "CERTIFICATE", der)
	return a
}

func (a *authority) template(name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
}

// issue returns the files of a certificate for a name on this machine, and its key.
func (a *authority) issue(t *testing.T, name string) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := a.template(name)
	template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, private.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return a.write(t, name+"-cert.pem", "CERTIFICATE", der), a.write(t, name+"-key.pem", "PRIVATE KEY", secret)
}

func (a *authority) write(t *testing.T, name, kind string, der []byte) string {
	t.Helper()
	path := filepath.Join(a.dir, name)
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
