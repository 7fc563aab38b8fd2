package authn_test

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok/internal/authn"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// intermediate returns an authority whose certificate is signed by a.
func (a *authority) intermediate(t *testing.T, name string, end time.Duration) *authority {
	t.Helper()
	i := &authority{}
	i.cert, i.key = sign(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(end),
	}, a.cert, a.key)
	return i
}

// TestSignaturesOfChains checks the limit on a client's intermediate certificates: the number of
// signatures that verification checks in the worst case.
func TestSignaturesOfChains(t *testing.T) {
	root := newAuthority(t)
	line := func(n int) []*x509.Certificate {
		at := root
		var sent []*x509.Certificate
		for i := range n {
			at = at.intermediate(t, fmt.Sprint("level ", i), time.Hour)
			sent = append(sent, at.cert)
		}
		slices.Reverse(sent)
		return append([]*x509.Certificate{at.issue(t, pkix.Name{CommonName: "alice"})}, sent...)
	}
	namesakes := func(n int, sub string) []*x509.Certificate { // only the last one is in a valid chain
		last := root.intermediate(t, "namesake", time.Hour)
		sent := []*x509.Certificate{last.issue(t, pkix.Name{CommonName: "alice"})}
		for range n - 1 {
			sent = append(sent, (&authority{
				cert: &x509.Certificate{Subject: pkix.Name{CommonName: sub}}, key: root.key,
			}).intermediate(t, "namesake", time.Hour).cert)
		}
		return append(sent, last.cert)
	}
	unrelated := line(2)
	for i := range 40 {
		unrelated = append(unrelated, root.intermediate(t, fmt.Sprint("unrelated ", i), time.Hour).cert)
	}
	backwards := line(10)
	slices.Reverse(backwards[1:])
	for _, tc := range []struct {
		name  string
		certs []*x509.Certificate
		holds bool
	}{
		{"no intermediates", line(0), true},
		{"with the authority", append(line(1), root.cert), true},
		{"twice the same", slices.Concat(line(0), line(1)[1:], []*x509.Certificate{root.cert, root.cert}), true},
		{"in any order", backwards, true},
		{"unrelated ones", unrelated, true},
		{"16 levels", line(16), true},
		{"17 levels", line(17), false},
		{"16 of one name", namesakes(16, "none"), true},
		{"17 of one name", namesakes(17, "none"), false},
		{"3 that may sign each other", namesakes(3, "namesake"), true},
		{"10 that may sign each other", namesakes(10, "namesake"), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := authn.NewAuthenticator(root.pool())
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.TLS = &tls.ConnectionState{PeerCertificates: tc.certs}
			u, err := a.Identify(r)
			if !tc.holds {
				wantStatus(t, err, http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "Unauthorized")
			} else if err != nil || u.Name != "alice" {
				t.Errorf("got %v, %v", u, err)
			}
		})
	}
}

// TestRefusedChainIsKept checks that the rejected certificates of a connection are not verified by
// each request, whether or not they are expired. The test replaces them by valid ones to see that.
func TestRefusedChainIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := newAuthority(t)
		expired := root.intermediate(t, "intermediate", -time.Hour)
		late := []*x509.Certificate{expired.issue(t, pkix.Name{CommonName: "alice"}), expired.cert}
		foreign := []*x509.Certificate{newAuthority(t).issue(t, pkix.Name{CommonName: "alice"})}
		good := []*x509.Certificate{root.issue(t, pkix.Name{CommonName: "alice"})}

		users, proxies := authn.NewAuthenticator(root.pool()), authn.NewAuthenticator(nil)
		proxies.Behind(&authn.FrontProxy{Authorities: root.pool(), RequestHeaderOptions: authn.RequestHeaderOptions{UsernameHeaders: []string{"X-Remote-User"}}})
		for name, a := range map[string]*authn.Authenticator{"users": users, "proxies": proxies} {
			for reason, refused := range map[string][]*x509.Certificate{"expired": late, "foreign": foreign} {
				r := httptest.NewRequest(http.MethodGet, "/", nil)
				r = r.WithContext(authn.ConnContext(r.Context()))
				identify := func(certs []*x509.Certificate) error {
					r := r.Clone(r.Context())
					r.Header.Set("X-Remote-User", "alice")
					r.TLS = &tls.ConnectionState{PeerCertificates: certs}
					_, err := a.Identify(r)
					return err
				}
				if identify(refused) == nil {
					t.Fatalf("%s, %s: the certificate is accepted", name, reason)
				}
				for _, wait := range []time.Duration{0, 9 * time.Second} {
					time.Sleep(wait)
					if identify(good) == nil {
						t.Errorf("%s, %s: verified again after %s", name, reason, wait)
					}
				}
				time.Sleep(time.Second)
				if err := identify(good); err != nil {
					t.Errorf("%s, %s: not verified again after 10s: %v", name, reason, err)
				}
			}
		}
	})
}
