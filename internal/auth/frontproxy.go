package auth

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// A FrontProxy is a server in front of this one that has asked users who they are, and says so in headers. It shows a
// client certificate; nobody else is believed.
type FrontProxy struct {
	// Authorities sign the proxies' certificates. Without them no one is believed.
	Authorities *x509.CertPool
	// AllowedNames are the common names that certificates of proxies have. Default: any will do.
	AllowedNames []string
	// UsernameHeaders, UIDHeaders and GroupHeaders are where the proxy says who a user is. Of names and UIDs the first that
	// is there counts, of groups all. Without UsernameHeaders no one is believed.
	UsernameHeaders, UIDHeaders, GroupHeaders []string
	// ExtraPrefixes are what headers begin with that say more of a user.
	ExtraPrefixes []string
}

// Behind makes the Authenticator believe a front proxy. It is called before the first request.
func (a *Authenticator) Behind(f *FrontProxy) { a.proxy = f }

// user is who the front proxy says that sends a request; nil if there is no proxy, or it says nothing.
func (f *FrontProxy) user(r *http.Request, c *connection) (*User, error) {
	if f == nil || f.Authorities == nil || r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return nil, nil
	}
	name := first(r.Header, f.UsernameHeaders)
	if name == "" {
		return nil, nil
	}
	if c == nil {
		c = &connection{}
	}
	c.fronted.once.Do(func() { c.fronted.expires, c.fronted.err = f.verify(r.TLS.PeerCertificates) })
	if c.fronted.err != nil {
		return nil, c.fronted.err
	}
	if time.Now().After(c.fronted.expires) {
		return nil, errors.New("client certificate has expired")
	}
	u := &User{Name: name, UID: first(r.Header, f.UIDHeaders)}
	for _, header := range f.GroupHeaders {
		for _, group := range r.Header.Values(header) {
			if group != "" {
				u.Groups = append(u.Groups, group)
			}
		}
	}
	for _, prefix := range f.ExtraPrefixes {
		for header, values := range r.Header {
			if !hasPrefixFold(header, prefix) {
				continue
			}
			key := strings.ToLower(header[len(prefix):])
			if plain, err := url.PathUnescape(key); err == nil {
				key = plain
			}
			if u.Extra == nil {
				u.Extra = map[string][]string{}
			}
			u.Extra[key] = append(u.Extra[key], values...)
		}
	}
	if u.Name != Anonymous {
		u.Groups = WithAuthenticated(u.Groups)
	}
	return u, nil
}

func (f *FrontProxy) verify(certs []*x509.Certificate) (time.Time, error) {
	expires, err := verify(f.Authorities, certs)
	if err != nil {
		return expires, err
	}
	if name := certs[0].Subject.CommonName; len(f.AllowedNames) > 0 && !slices.Contains(f.AllowedNames, name) {
		return expires, fmt.Errorf("x509: subject with cn=%s is not in the allowed list", name)
	}
	return expires, nil
}

// clear removes the headers of a front proxy, whoever has sent them: no later step is to believe them.
func (f *FrontProxy) clear(h http.Header) {
	if f == nil {
		return
	}
	for _, names := range [][]string{f.UsernameHeaders, f.UIDHeaders, f.GroupHeaders} {
		for _, name := range names {
			h.Del(name)
		}
	}
	for _, prefix := range f.ExtraPrefixes {
		for name := range h {
			if hasPrefixFold(name, prefix) {
				delete(h, name)
			}
		}
	}
}

func hasPrefixFold(s, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix)
}

// first is the first value that is not empty of the first header that has one.
func first(h http.Header, names []string) string {
	for _, name := range names {
		if value := h.Get(name); value != "" {
			return value
		}
	}
	return ""
}
