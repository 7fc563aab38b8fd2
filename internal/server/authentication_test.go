package server

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok/internal/authn/methods"
	"github.com/kapok-dev/kapok/internal/authn/oidc"
	"github.com/kapok-dev/kapok/internal/authn/remote"
	"github.com/kapok-dev/kapok/internal/reload"
	"github.com/kapok-dev/kapok/internal/transport"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

func write(t *testing.T, file, content string) string {
	t.Helper()
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// who returns the user name that the server authenticates a token as: "" if it rejects the token,
// "*" for an admin.
func who(t *testing.T, s *Server, token string) string {
	t.Helper()
	config := s.Config()
	config.BearerToken = token
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{})
	switch {
	case err == nil:
		return "*"
	case apierrors.IsUnauthorized(err):
		return ""
	case apierrors.IsForbidden(err):
		_, rest, _ := strings.Cut(err.Error(), `User "`)
		name, _, _ := strings.Cut(rest, `"`)
		return name
	}
	t.Fatal(err)
	return ""
}

// TestTokenFile checks that the server accepts the tokens of a file, reads the file again when it
// changes, and keeps the previous tokens if the file is invalid or missing.
func TestTokenFile(t *testing.T) {
	file := write(t, filepath.Join(t.TempDir(), "tokens"), "a,alice,1\nm,mary,2,system:masters\n")
	synctest.Test(t, func(t *testing.T) {
		s := start(t, Options{Authentication: methods.Options{TokenFile: file}})
		check := func(token, want string) {
			t.Helper()
			if got := who(t, s, token); got != want {
				t.Errorf("token %q authenticates %q, want %q", token, got, want)
			}
		}
		check("a", "alice")
		check("m", "*")
		check("x", "")
		check("", "*") // without a token, an in-process client is an admin
		write(t, file, "x,xaver,1\n")
		time.Sleep(reload.Every + time.Second)
		check("x", "xaver")
		check("a", "")
		write(t, file, "x\n")
		time.Sleep(reload.Every + time.Second)
		check("x", "xaver")
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		time.Sleep(reload.Every + time.Second)
		check("x", "xaver")
	})
}

func TestBadAuthentication(t *testing.T) {
	dir := t.TempDir()
	empty := write(t, filepath.Join(dir, "empty"), "")
	short := write(t, filepath.Join(dir, "short"), "x\n")
	anonymous := write(t, filepath.Join(dir, "anonymous"),
		"apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\nanonymous: {enabled: true}\n")
	for _, tc := range []struct {
		name string
		o    methods.Options
		err  string
	}{
		{"no such tokens", methods.Options{TokenFile: filepath.Join(dir, "none")}, "no such file"},
		{"short tokens", methods.Options{TokenFile: short}, "must have at least 3 columns"},
		{"empty configuration", methods.Options{ConfigFile: empty}, "empty config data"},
		{"configuration and flags", methods.Options{ConfigFile: anonymous, OIDC: oidc.Options{IssuerURL: "https://a"}}, "mutually exclusive"},
		{"anonymous twice", methods.Options{ConfigFile: anonymous, RefuseAnonymous: true}, "--anonymous-auth flag cannot be set"},
		{"half of the flags", methods.Options{OIDC: oidc.Options{IssuerURL: "https://a"}}, "must be specified together"},
		{"no https", methods.Options{OIDC: oidc.Options{IssuerURL: "http://a", ClientID: "c"}}, "URL scheme must be https"},
		{"algorithm", methods.Options{OIDC: oidc.Options{IssuerURL: "https://a", ClientID: "c", SigningAlgs: []string{"none"}}}, "unsupported signing alg"},
		{"webhook", methods.Options{Webhook: remote.Options{ConfigFile: filepath.Join(dir, "none")}}, "authentication webhook:"},
		{"version of the webhook", methods.Options{Webhook: remote.Options{ConfigFile: empty, Version: "v2"}}, "unsupported authentication webhook version"},
		{"authorities without a socket", methods.Options{ClientCAFile: empty}, "set Listen"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			leakFree(t)
			s, err := Start(t.Context(), Options{Authentication: tc.o})
			if err == nil {
				s.Stop()
			}
			if err == nil || !strings.Contains(err.Error(), tc.err) {
				t.Errorf("got %v, want %s", err, tc.err)
			}
		})
	}
	for _, tc := range []struct {
		name string
		o    transport.ServingOptions
		err  string
	}{
		{"no key", transport.ServingOptions{CertFile: empty}, "set both or neither"},
		{"empty", transport.ServingOptions{CertFile: empty, KeyFile: empty}, "serving certificate in"},
		{"old version", transport.ServingOptions{MinVersion: "VersionTLS10"}, `tls version "VersionTLS10" is not supported`},
		{"no version", transport.ServingOptions{MinVersion: "1.2"}, `unknown tls version "1.2"`},
		{"no suite", transport.ServingOptions{CipherSuites: []string{"X"}}, "Cipher suite X not supported or doesn't exist"},
		{"old suite", transport.ServingOptions{CipherSuites: []string{"TLS_RSA_WITH_RC4_128_SHA"}}, "is not secure"},
	} {
		t.Run("serving/"+tc.name, func(t *testing.T) {
			leakFree(t)
			s, err := Start(t.Context(), Options{Listen: anyPort, Serving: tc.o})
			if err == nil {
				s.Stop()
			}
			if err == nil || !strings.Contains(err.Error(), tc.err) {
				t.Errorf("got %v, want %s", err, tc.err)
			}
		})
	}
	t.Run("certificate without a socket", func(t *testing.T) {
		s, err := Start(t.Context(), Options{Serving: transport.ServingOptions{CertFile: empty, KeyFile: empty}})
		if err == nil {
			s.Stop()
		}
		if err == nil || !strings.Contains(err.Error(), "set Listen") {
			t.Errorf("got %v, want set Listen", err)
		}
	})
}

// TestAnonymous checks which paths accept requests without credentials.
func TestAnonymous(t *testing.T) {
	file := write(t, filepath.Join(t.TempDir(), "config"), `
apiVersion: apiserver.config.k8s.io/v1
kind: AuthenticationConfiguration
anonymous: {enabled: true, conditions: [{path: /livez}]}
`)
	for _, tc := range []struct {
		name string
		o    methods.Options
		want map[string]int
	}{
		{"default", methods.Options{}, map[string]int{"/livez": 200, "/version": 200, "/api/v1/pods": 403}},
		{"refused", methods.Options{RefuseAnonymous: true}, map[string]int{"/livez": 401, "/version": 401, "/api/v1/pods": 401}},
		{"some paths", methods.Options{ConfigFile: file}, map[string]int{"/livez": 200, "/livez/ping": 401, "/version": 401, "/api/v1/pods": 401}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			leakFree(t)
			s := start(t, Options{Listen: anyPort, Authentication: tc.o})
			config := rest.AnonymousClientConfig(adminConfig(t, s))
			for path, want := range tc.want {
				if code, body := get(t, client(t, config), config.Host+path); code != want {
					t.Errorf("%s: %d %s, want %d", path, code, body, want)
				}
			}
		})
	}
}

// otherCA is a certificate authority other than the server's.
type otherCA struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  string
}

func newOtherCA(t *testing.T) *otherCA {
	t.Helper()
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "other"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	ca := &otherCA{}
	ca.cert, ca.key = ca.issue(t, template)
	ca.pem = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.cert.Raw}))
	return ca
}

func (ca *otherCA) issue(t *testing.T, template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	parent, signer := ca.cert, ca.key
	if parent == nil {
		parent, signer = template, key
	}
	template.SerialNumber, template.NotBefore, template.NotAfter = big.NewInt(time.Now().UnixNano()), time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key
}

// pair issues a certificate and returns it with its key, both in PEM.
func (ca *otherCA) pair(t *testing.T, template *x509.Certificate) (cert, key string) {
	t.Helper()
	c, k := ca.issue(t, template)
	der, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})), string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}))
}

// reloadFiles reads the files again, as the server does every ten seconds.
func reloadFiles(s *Server) {
	for _, f := range s.files {
		_, _ = f.Refresh(context.Background()) // tests check what is in effect
	}
}

// TestClientCAFile checks that certificates of another authority are accepted as long as it is in
// the file, also on open connections.
func TestClientCAFile(t *testing.T) {
	leakFree(t)
	ca := newOtherCA(t)
	file := write(t, filepath.Join(t.TempDir(), "ca.pem"), ca.pem)
	s := start(t, Options{Listen: anyPort, Authentication: methods.Options{ClientCAFile: file}})
	stopFollowing(s)
	admin := adminConfig(t, s)
	config := rest.AnonymousClientConfig(admin)
	cert, key := ca.pair(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: "alice", Organization: []string{"system:masters"}}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	config.CertData, config.KeyData = []byte(cert), []byte(key)
	alice := client(t, config)
	check := func(what string, c *http.Client, want int) {
		t.Helper()
		if code, body := get(t, c, config.Host+"/api/v1/namespaces"); code != want {
			t.Errorf("%s: %d %s, want %d", what, code, body, want)
		}
	}
	check("alice", alice, 200)
	check("admin", client(t, admin), 200)
	write(t, file, "garbage")
	reloadFiles(s)
	check("alice, after garbage", alice, 200)
	write(t, file, newOtherCA(t).pem)
	reloadFiles(s)
	check("alice, of an authority that is gone", alice, 401)
	check("admin", client(t, admin), 200)
	write(t, file, ca.pem)
	reloadFiles(s)
	check("alice, once more", alice, 200)
}

// stopFollowing stops the server from reading its files again: the test calls reloadFiles.
func stopFollowing(s *Server) { s.unwatch() }

// TestServingCertificate checks that the server presents the certificate of a file, and the next
// one when the file has changed.
func TestServingCertificate(t *testing.T) {
	leakFree(t)
	ca, dir := newOtherCA(t), t.TempDir()
	roots := x509.NewCertPool()
	roots.AddCert(ca.cert)
	certFile, keyFile := filepath.Join(dir, "cert"), filepath.Join(dir, "key")
	issue := func(name string) {
		cert, key := ca.pair(t, &x509.Certificate{Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}})
		write(t, certFile, cert)
		write(t, keyFile, key)
	}
	issue("one.example.com")
	s := start(t, Options{Listen: anyPort, Serving: transport.ServingOptions{
		CertFile: certFile, KeyFile: keyFile, MinVersion: "VersionTLS13",
	}})
	stopFollowing(s)
	shown := func() string {
		t.Helper()
		c, err := tls.Dial("tcp", s.Address(), &tls.Config{RootCAs: roots})
		if err != nil {
			return err.Error()
		}
		defer c.Close()
		state := c.ConnectionState()
		return fmt.Sprint(state.PeerCertificates[0].Subject.CommonName, " ", tls.VersionName(state.Version))
	}
	if got := shown(); got != "one.example.com TLS 1.3" {
		t.Errorf("presented %s", got)
	}
	issue("two.example.com")
	cert, err := os.ReadFile(certFile)
	if err != nil {
		t.Fatal(err)
	}
	write(t, certFile, "garbage")
	reloadFiles(s)
	if got := shown(); got != "one.example.com TLS 1.3" {
		t.Errorf("after garbage, presented %s", got)
	}
	write(t, certFile, string(cert))
	reloadFiles(s)
	if got := shown(); got != "two.example.com TLS 1.3" {
		t.Errorf("presented %s", got)
	}
	if c, err := tls.Dial("tcp", s.Address(), &tls.Config{RootCAs: roots, MaxVersion: tls.VersionTLS12}); err == nil {
		c.Close()
		t.Error("TLS 1.2 was accepted")
	}
}

// TestRenewal checks that the server renews its certificates before they expire, and then writes a
// kubeconfig with the new ones.
func TestRenewal(t *testing.T) {
	leakFree(t)
	s := start(t, Options{Listen: anyPort, DataDir: t.TempDir()})
	before := string(s.Kubeconfig())
	if err := s.socket.renew(time.Now()); err != nil || string(s.Kubeconfig()) != before {
		t.Fatalf("renewed too early: %v", err)
	}
	later := time.Now().Add(400 * 24 * time.Hour)
	if err := s.socket.renew(later); err != nil {
		t.Fatal(err)
	}
	after := s.Kubeconfig()
	data, err := os.ReadFile(s.socket.announced)
	if err != nil || string(data) != string(after) || string(after) == before {
		t.Errorf("the kubeconfig is unchanged: %v", err)
	}
	config, err := s.socket.secure.Config().GetConfigForClient(nil)
	if err != nil {
		t.Fatal(err)
	}
	cert := config.Certificates[0].Leaf
	if left := cert.NotAfter.Sub(later); left < 365*24*time.Hour {
		t.Errorf("the serving certificate is valid for %v", left)
	}
}
