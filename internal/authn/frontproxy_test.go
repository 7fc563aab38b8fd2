package authn_test

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/internal/authn"

	"github.com/google/go-cmp/cmp"
)

// TestFrontProxy checks that a request through a front proxy has the user that the proxy names, and
// that other clients cannot name a user.
func TestFrontProxy(t *testing.T) {
	proxies, clients := newAuthority(t), newAuthority(t)
	proxy := proxies.issue(t, pkix.Name{CommonName: "front-proxy-client"})
	other := proxies.issue(t, pkix.Name{CommonName: "other"})
	expired := proxies.issue(t, pkix.Name{CommonName: "front-proxy-client"}, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })
	alice := clients.issue(t, pkix.Name{CommonName: "alice"})
	namesake := clients.issue(t, pkix.Name{CommonName: "front-proxy-client"})
	self := newAuthority(t).issue(t, pkix.Name{CommonName: "front-proxy-client"})

	claims := http.Header{
		"X-Remote-User": {"bob"}, "X-Remote-Uid": {"u-1"}, "X-Remote-Group": {"dev", "", "ops"},
		"X-Remote-Extra-Example.com%2fscopes": {"a", "b"}, "X-Remote-Extra-Plain%zz": {"c"}, "Other": {"kept"},
	}
	bob := &authn.User{Name: "bob", UID: "u-1", Groups: []string{"dev", "ops", authn.Authenticated},
		Extra: map[string][]string{"example.com/scopes": {"a", "b"}, "plain%zz": {"c"}}}
	anonymous := &authn.User{Name: authn.Anonymous, Groups: []string{authn.Unauthenticated}}
	all := authn.FrontProxy{
		Authorities: proxies.pool(),
		RequestHeaderOptions: authn.RequestHeaderOptions{
			AllowedNames:    []string{"front-proxy-client"},
			UsernameHeaders: []string{"X-User", "X-Remote-User"}, UIDHeaders: []string{"X-Remote-Uid"},
			GroupHeaders: []string{"X-Remote-Group"}, ExtraHeadersPrefix: []string{"X-Remote-Extra-"},
		},
	}
	anyName, noAuthority, noHeaders := all, all, all
	anyName.AllowedNames, noAuthority.Authorities, noHeaders.UsernameHeaders = nil, nil, nil

	for _, tc := range []struct {
		name   string
		proxy  *authn.FrontProxy
		cert   *x509.Certificate
		header http.Header
		want   string // the user's name; "" if the request is rejected
	}{
		{"the proxy", &all, proxy, claims, "bob"},
		{"no certificate", &all, nil, claims, authn.Anonymous},
		{"a user's certificate", &all, alice, claims, "alice"},
		{"a user who is called like the proxy", &all, namesake, claims, "front-proxy-client"},
		{"a certificate of its own making", &all, self, claims, ""},
		{"another name", &all, other, claims, ""},
		{"any name will do", &anyName, other, claims, "bob"},
		{"expired", &all, expired, claims, ""},
		{"the proxy sends no user header", &all, proxy, http.Header{"X-Remote-Group": {"system:masters"}}, ""},
		{"the proxy names no user", &all, proxy, http.Header{"X-Remote-User": {""}}, ""},
		{"no proxy is trusted", nil, proxy, claims, ""},
		{"no authorities", &noAuthority, proxy, claims, ""},
		{"no headers", &noHeaders, proxy, claims, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := authn.NewAuthenticator(clients.pool())
			a.Behind(tc.proxy)
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.Header = tc.header.Clone()
			if tc.cert != nil {
				r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{tc.cert}}
			}
			r = r.WithContext(authn.ConnContext(r.Context()))
			for range 2 { // the second time with the cached certificate
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
				case tc.want == authn.Anonymous:
					if diff := cmp.Diff(anonymous, u); diff != "" {
						t.Errorf("(-want +got):\n%s", diff)
					}
				}
				if left := r.Header; tc.proxy == &all && (len(left) != 1 || left.Get("Other") != "kept") {
					t.Errorf("the remaining header is %v", left)
				}
			}
		})
	}
}
