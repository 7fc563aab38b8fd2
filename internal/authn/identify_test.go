package authn_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok/internal/authn"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// authority signs certificates for tests.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "ca"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		NotAfter: time.Now().Add(365 * 24 * time.Hour),
	}
	a := &authority{}
	a.cert, a.key = sign(t, template, template, nil)
	return a
}

func sign(t *testing.T, template, parent *x509.Certificate, signer *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if signer == nil {
		signer = key
	}
	template.SerialNumber = big.NewInt(1)
	if template.NotBefore.IsZero() {
		template.NotBefore = time.Now().Add(-time.Hour)
	}
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

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

func (a *authority) issue(t *testing.T, subject pkix.Name, change ...func(*x509.Certificate)) *x509.Certificate {
	t.Helper()
	template := &x509.Certificate{
		Subject: subject, NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	for _, f := range change {
		f(template)
	}
	cert, _ := sign(t, template, a.cert, a.key)
	return cert
}

func TestIdentify(t *testing.T) {
	ours, theirs := newAuthority(t), newAuthority(t)
	uid := asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57683, 2}
	alice := ours.issue(t, pkix.Name{CommonName: "alice", Organization: []string{"dev", "ops"}})
	withUID := ours.issue(t, pkix.Name{CommonName: "bob", ExtraNames: []pkix.AttributeTypeAndValue{{Type: uid, Value: "u-1"}}})
	twoUIDs := ours.issue(t, pkix.Name{CommonName: "bob", ExtraNames: []pkix.AttributeTypeAndValue{
		{Type: uid, Value: "u-1"}, {Type: uid, Value: "u-2"}}})
	nameless := ours.issue(t, pkix.Name{Organization: []string{authn.Masters}})
	foreign := theirs.issue(t, pkix.Name{CommonName: "alice", Organization: []string{authn.Masters}})
	expired := ours.issue(t, pkix.Name{CommonName: "alice"}, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })
	forServers := ours.issue(t, pkix.Name{CommonName: "alice"}, func(c *x509.Certificate) {
		c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	})

	admin := &authn.User{Name: "kubernetes-admin", Groups: []string{"system:masters", "system:authenticated"}}
	anonymous := &authn.User{Name: "system:anonymous", Groups: []string{"system:unauthenticated"}}
	wantAlice := &authn.User{Name: "alice", Groups: []string{"dev", "ops", "system:authenticated"}}
	const token = "correct-horse"

	for _, tc := range []struct {
		name          string
		cert          *x509.Certificate
		authorization string
		inProcess     bool
		noToken       bool // the server has no token
		want          *authn.User
	}{
		{name: "nothing", want: anonymous},
		{name: "token", authorization: "Bearer " + token, want: admin},
		{name: "token, scheme in other case", authorization: "bEARER " + token, want: admin},
		{name: "token, spaces around", authorization: "  Bearer " + token + " ", want: admin},
		{name: "wrong token", authorization: "Bearer wrong"},
		{name: "beginning of the token", authorization: "Bearer " + token[:5]},
		{name: "longer than the token", authorization: "Bearer " + token + "x"},
		{name: "any token, server has none", authorization: "Bearer x", noToken: true},
		{name: "empty token", authorization: "Bearer ", want: anonymous},
		{name: "empty token, server has none", authorization: "Bearer  ", noToken: true, want: anonymous},
		{name: "another scheme", authorization: "Basic YTpi", want: anonymous},
		{name: "certificate", cert: alice, want: wantAlice},
		{name: "certificate and wrong token", cert: alice, authorization: "Bearer wrong", want: wantAlice},
		{name: "certificate with UID", cert: withUID, want: &authn.User{Name: "bob", UID: "u-1", Groups: []string{"system:authenticated"}}},
		{name: "certificate with two UIDs", cert: twoUIDs},
		{name: "certificate without a name", cert: nameless, want: anonymous},
		{name: "foreign certificate", cert: foreign},
		{name: "foreign certificate and token", cert: foreign, authorization: "Bearer " + token, want: admin},
		{name: "foreign certificate, in process", cert: foreign, inProcess: true},
		{name: "expired certificate", cert: expired},
		{name: "certificate for servers", cert: forServers},
		{name: "in process", inProcess: true, want: admin},
		{name: "in process, wrong token", inProcess: true, authorization: "Bearer wrong"},
		{name: "in process, certificate", inProcess: true, cert: alice, want: wantAlice},
	} {
		t.Run(tc.name, func(t *testing.T) {
			serverToken := token
			if tc.noToken {
				serverToken = ""
			}
			a := authn.NewAuthenticator(ours.pool(), authn.AdminToken(serverToken))
			r := httptest.NewRequest("GET", "/api", nil)
			r.Header.Set("Authorization", tc.authorization)
			ctx := authn.ConnContext(r.Context())
			if tc.inProcess {
				ctx = authn.InProcessContext(r.Context())
			}
			r = r.WithContext(ctx)
			if tc.cert != nil {
				r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{tc.cert}}
			}
			for range 2 { // the second time from the connection's cache
				r := r.Clone(ctx)
				got, err := a.Identify(r)
				if tc.want == nil {
					wantStatus(t, err, http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "Unauthorized")
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tc.want, got, cmpopts.IgnoreFields(authn.User{}, "Extra")); diff != "" {
					t.Error(diff)
				}
				if got.Name == "alice" && !strings.HasPrefix(got.Extra["authentication.kubernetes.io/credential-id"][0], "X509SHA256=") {
					t.Errorf("extra: %v", got.Extra)
				}
				if h := r.Header.Get("Authorization"); h != "" {
					t.Errorf("later steps see Authorization %q", h)
				}
			}
		})
	}
}

// TestCertificateExpiresOnConnection checks that an open connection is rejected when its
// certificate has expired.
func TestCertificateExpiresOnConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours := newAuthority(t)
		alice := ours.issue(t, pkix.Name{CommonName: "alice"}) // for an hour
		a := authn.NewAuthenticator(ours.pool())
		r := httptest.NewRequest("GET", "/api", nil)
		r = r.WithContext(authn.ConnContext(r.Context()))
		r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{alice}}
		if u, err := a.Identify(r); err != nil || u.Name != "alice" {
			t.Fatalf("got %v, %v", u, err)
		}
		time.Sleep(2 * time.Hour)
		_, err := a.Identify(r)
		wantStatus(t, err, http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "Unauthorized")
	})
}

// TestCertificateBeginsOnConnection checks that a certificate that is not valid yet, as with a
// clock that is behind, is accepted on the same connection when it has become valid.
func TestCertificateBeginsOnConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours := newAuthority(t)
		for _, cn := range []string{"alice", "proxy"} {
			cert := ours.issue(t, pkix.Name{CommonName: cn}, func(c *x509.Certificate) {
				c.NotBefore, c.NotAfter = time.Now().Add(time.Hour), time.Now().Add(10*time.Hour)
			})
			a := authn.NewAuthenticator(ours.pool())
			r := httptest.NewRequest("GET", "/api", nil)
			r = r.WithContext(authn.ConnContext(r.Context()))
			r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert}}
			want := cn
			if cn == "proxy" {
				a = authn.NewAuthenticator(nil)
				a.Behind(&authn.FrontProxy{Authorities: ours.pool(), RequestHeaderOptions: authn.RequestHeaderOptions{UsernameHeaders: []string{"X-Remote-User"}}})
				want = "bob"
			}
			identify := func() (*authn.User, error) {
				r := r.Clone(r.Context()) // Identify removes the headers
				r.Header.Set("X-Remote-User", "bob")
				return a.Identify(r)
			}
			_, err := identify()
			wantStatus(t, err, http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "Unauthorized")
			time.Sleep(2 * time.Hour)
			if u, err := identify(); err != nil || u.Name != want {
				t.Errorf("got %v, %v, want %s", u, err, want)
			}
		}
	})
}

// wantStatus checks that an error is a status with a message that contains text.
func wantStatus(t *testing.T, err error, code int32, reason metav1.StatusReason, text string) {
	t.Helper()
	status, ok := err.(apierrors.APIStatus)
	if !ok {
		t.Fatalf("got %v, want a status", err)
	}
	s := status.Status()
	if s.Code != code || s.Reason != reason || !strings.Contains(s.Message, text) {
		t.Errorf("got %d %s %q\nwant %d %s %q", s.Code, s.Reason, s.Message, code, reason, text)
	}
}

// TestLeafSignsNothing checks that a client certificate cannot sign other certificates.
func TestLeafSignsNothing(t *testing.T) {
	ours := newAuthority(t)
	until, usage := time.Now().Add(time.Hour), []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	leaf, key := sign(t, &x509.Certificate{Subject: pkix.Name{CommonName: "eve"}, NotAfter: until, ExtKeyUsage: usage}, ours.cert, ours.key)
	admin, _ := sign(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: "admin", Organization: []string{authn.Masters}}, NotAfter: until, ExtKeyUsage: usage,
	}, leaf, key)
	r := httptest.NewRequest("GET", "/", nil)
	r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{admin, leaf}}
	if u, err := authn.NewAuthenticator(ours.pool()).Identify(r); !apierrors.IsUnauthorized(err) {
		t.Errorf("%+v, %v", u, err)
	}
}
