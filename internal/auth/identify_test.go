package auth_test

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

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kapok-dev/kapok/internal/auth"
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
	template.NotBefore = time.Now().Add(-time.Hour)
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
	nameless := ours.issue(t, pkix.Name{Organization: []string{auth.Masters}})
	foreign := theirs.issue(t, pkix.Name{CommonName: "alice", Organization: []string{auth.Masters}})
	expired := ours.issue(t, pkix.Name{CommonName: "alice"}, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })
	forServers := ours.issue(t, pkix.Name{CommonName: "alice"}, func(c *x509.Certificate) {
		c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	})

	admin := &auth.User{Name: "kubernetes-admin", Groups: []string{"system:masters", "system:authenticated"}}
	anonymous := &auth.User{Name: "system:anonymous", Groups: []string{"system:unauthenticated"}}
	wantAlice := &auth.User{Name: "alice", Groups: []string{"dev", "ops", "system:authenticated"}}
	const token = "correct-horse"

	for _, tc := range []struct {
		name          string
		cert          *x509.Certificate
		authorization string
		inProcess     bool
		noToken       bool // the server has none
		want          *auth.User
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
		{name: "certificate with UID", cert: withUID, want: &auth.User{Name: "bob", UID: "u-1", Groups: []string{"system:authenticated"}}},
		{name: "certificate with two UIDs", cert: twoUIDs},
		{name: "certificate of nobody", cert: nameless, want: anonymous},
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
			a := auth.NewAuthenticator(ours.pool(), auth.AdminToken(serverToken))
			r := httptest.NewRequest("GET", "/api", nil)
			r.Header.Set("Authorization", tc.authorization)
			ctx := auth.ConnContext(r.Context())
			if tc.inProcess {
				ctx = auth.InProcessContext(r.Context())
			}
			r = r.WithContext(ctx)
			if tc.cert != nil {
				r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{tc.cert}}
			}
			for range 2 { // the second time from what is remembered of the connection
				r := r.Clone(ctx)
				got, err := a.Identify(r)
				if tc.want == nil {
					wantStatus(t, err, http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "Unauthorized")
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tc.want, got, cmpopts.IgnoreFields(auth.User{}, "Extra")); diff != "" {
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

// A connection may live longer than the certificate with which it was made.
func TestCertificateExpiresOnConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours := newAuthority(t)
		alice := ours.issue(t, pkix.Name{CommonName: "alice"}) // for an hour
		a := auth.NewAuthenticator(ours.pool())
		r := httptest.NewRequest("GET", "/api", nil)
		r = r.WithContext(auth.ConnContext(r.Context()))
		r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{alice}}
		if u, err := a.Identify(r); err != nil || u.Name != "alice" {
			t.Fatalf("got %v, %v", u, err)
		}
		time.Sleep(2 * time.Hour)
		_, err := a.Identify(r)
		wantStatus(t, err, http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "Unauthorized")
	})
}

func TestImpersonation(t *testing.T) {
	const token = "secret"
	sa := "system:serviceaccount:default:robot"
	for _, tc := range []struct {
		name   string
		from   string // token
		header map[string][]string
		want   *auth.User
		code   int32
		reason metav1.StatusReason
		text   string
	}{
		{name: "user", from: token, header: map[string][]string{"Impersonate-User": {"bob"}},
			want: &auth.User{Name: "bob", Groups: []string{"system:authenticated"}}},
		{name: "groups", from: token, header: map[string][]string{"Impersonate-User": {"bob"}, "Impersonate-Group": {"a", "b"}},
			want: &auth.User{Name: "bob", Groups: []string{"a", "b", "system:authenticated"}}},
		{name: "unauthenticated group", from: token, header: map[string][]string{"Impersonate-User": {"bob"}, "Impersonate-Group": {"system:unauthenticated"}},
			want: &auth.User{Name: "bob", Groups: []string{"system:unauthenticated"}}},
		{name: "anonymous", from: token, header: map[string][]string{"Impersonate-User": {"system:anonymous"}},
			want: &auth.User{Name: "system:anonymous", Groups: []string{"system:unauthenticated"}}},
		{name: "service account", from: token, header: map[string][]string{"Impersonate-User": {sa}},
			want: &auth.User{Name: sa, Groups: []string{"system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"}}},
		{name: "uid and extra", from: token, header: map[string][]string{
			"Impersonate-User": {"bob"}, "Impersonate-Uid": {"7"}, "Impersonate-Extra-Acme.com%2fproject": {"x", "y"}},
			want: &auth.User{Name: "bob", UID: "7", Groups: []string{"system:authenticated"}, Extra: map[string][]string{"acme.com/project": {"x", "y"}}}},
		{name: "groups of nobody", from: token, header: map[string][]string{"Impersonate-Group": {"system:masters"}},
			code: 400, reason: metav1.StatusReasonBadRequest, text: "without impersonating a user name"},
		{name: "user, by anybody", header: map[string][]string{"Impersonate-User": {"bob"}},
			code: 403, reason: metav1.StatusReasonForbidden,
			text: `forbidden: User "system:anonymous" cannot impersonate-on:user-info:get path "/api"`},
		{name: "service account, by anybody", header: map[string][]string{"Impersonate-User": {sa}},
			code: 403, reason: metav1.StatusReasonForbidden,
			text: `forbidden: User "system:anonymous" cannot impersonate-on:serviceaccount:get path "/api"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := httptest.NewRequest("GET", "/api", nil)
			if tc.from != "" {
				r.Header.Set("Authorization", "Bearer "+tc.from)
			}
			for k, v := range tc.header {
				r.Header[k] = v
			}
			sender, err := auth.NewAuthenticator(nil, auth.AdminToken(token)).Identify(r)
			if err != nil {
				t.Fatal(err)
			}
			got, _, err := auth.Impersonate(t.Context(), auth.Basic{}, sender, r.Header, func() *auth.Attributes {
				return &auth.Attributes{Verb: "get", Path: "/api"}
			})
			if tc.want == nil {
				wantStatus(t, err, tc.code, tc.reason, tc.text)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
			for k := range r.Header {
				if strings.HasPrefix(k, "Impersonate-") {
					t.Errorf("later steps see header %s", k)
				}
			}
		})
	}
}

// wantStatus wants an error with a status whose message contains text.
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

// TestLeafSignsNobody: who has a certificate vouches for nobody with it.
func TestLeafSignsNobody(t *testing.T) {
	ours := newAuthority(t)
	until, usage := time.Now().Add(time.Hour), []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	leaf, key := sign(t, &x509.Certificate{Subject: pkix.Name{CommonName: "eve"}, NotAfter: until, ExtKeyUsage: usage}, ours.cert, ours.key)
	admin, _ := sign(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: "admin", Organization: []string{auth.Masters}}, NotAfter: until, ExtKeyUsage: usage,
	}, leaf, key)
	r := httptest.NewRequest("GET", "/", nil)
	r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{admin, leaf}}
	if u, err := auth.NewAuthenticator(ours.pool()).Identify(r); !apierrors.IsUnauthorized(err) {
		t.Errorf("%+v, %v", u, err)
	}
}
