package auth_test

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kapok-dev/kapok/internal/auth"
)

// Who comes through a front proxy is who the proxy says, and nobody else can say so.
func TestFrontProxy(t *testing.T) {
	proxies, clients := newAuthority(t), newAuthority(t)
	proxy := proxies.issue(t, pkix.Name{CommonName: "front-proxy-client"})
	other := proxies.issue(t, pkix.Name{CommonName: "somebody"})
	expired := proxies.issue(t, pkix.Name{CommonName: "front-proxy-client"}, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })
	alice := clients.issue(t, pkix.Name{CommonName: "alice"})
	namesake := clients.issue(t, pkix.Name{CommonName: "front-proxy-client"})
	self := newAuthority(t).issue(t, pkix.Name{CommonName: "front-proxy-client"})

	claims := http.Header{
		"X-Remote-User": {"bob"}, "X-Remote-Uid": {"u-1"}, "X-Remote-Group": {"dev", "", "ops"},
		"X-Remote-Extra-Example.com%2fscopes": {"a", "b"}, "X-Remote-Extra-Plain%zz": {"c"}, "Other": {"kept"},
	}
	bob := &auth.User{Name: "bob", UID: "u-1", Groups: []string{"dev", "ops", auth.Authenticated},
		Extra: map[string][]string{"example.com/scopes": {"a", "b"}, "plain%zz": {"c"}}}
	nobody := &auth.User{Name: auth.Anonymous, Groups: []string{auth.Unauthenticated}}
	all := auth.FrontProxy{
		Authorities: proxies.pool(), AllowedNames: []string{"front-proxy-client"},
		UsernameHeaders: []string{"X-User", "X-Remote-User"}, UIDHeaders: []string{"X-Remote-Uid"},
		GroupHeaders: []string{"X-Remote-Group"}, ExtraPrefixes: []string{"X-Remote-Extra-"},
	}
	anyName, noAuthority, noHeaders := all, all, all
	anyName.AllowedNames, noAuthority.Authorities, noHeaders.UsernameHeaders = nil, nil, nil

	for _, tc := range []struct {
		name   string
		proxy  *auth.FrontProxy
		cert   *x509.Certificate
		header http.Header
		want   string // the user's name; "" for a refusal
	}{
		{"the proxy", &all, proxy, claims, "bob"},
		{"no certificate", &all, nil, claims, auth.Anonymous},
		{"a user's certificate", &all, alice, claims, "alice"},
		{"a user who is called like the proxy", &all, namesake, claims, "front-proxy-client"},
		{"a certificate of its own making", &all, self, claims, ""},
		{"another name", &all, other, claims, ""},
		{"any name will do", &anyName, other, claims, "bob"},
		{"expired", &all, expired, claims, ""},
		{"the proxy says nothing", &all, proxy, http.Header{"X-Remote-Group": {"system:masters"}}, ""},
		{"the proxy names nobody", &all, proxy, http.Header{"X-Remote-User": {""}}, ""},
		{"nobody is believed", nil, proxy, claims, ""},
		{"no authorities", &noAuthority, proxy, claims, ""},
		{"no headers", &noHeaders, proxy, claims, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := auth.NewAuthenticator(clients.pool())
			a.Behind(tc.proxy)
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.Header = tc.header.Clone()
			if tc.cert != nil {
				r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{tc.cert}}
			}
			r = r.WithContext(auth.ConnContext(r.Context()))
			for range 2 { // the second time the certificate is known
				r.Header = tc.header.Clone()
				u, err := a.Identify(r)
				switch {
				case err != nil:
					if tc.want != "" {
						t.Errorf("got %v, want %s", err, tc.want)
					}
					continue
				case u.Name != tc.want:
					t.Errorf("got %v, want %q", u, tc.want)
				case tc.want == "bob":
					if diff := cmp.Diff(bob, u); diff != "" {
						t.Errorf("(-want +got):\n%s", diff)
					}
				case tc.want == auth.Anonymous:
					if diff := cmp.Diff(nobody, u); diff != "" {
						t.Errorf("(-want +got):\n%s", diff)
					}
				}
				if left := r.Header; tc.proxy == &all && (len(left) != 1 || left.Get("Other") != "kept") {
					t.Errorf("the header that is left is %v", left)
				}
			}
		})
	}
}
