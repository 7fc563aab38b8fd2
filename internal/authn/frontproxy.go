package authn

import (
	"crypto/x509"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// A FrontProxy is a server in front of this one that has authenticated users and names them in
// headers. It presents a client certificate; headers of other clients are ignored.
type FrontProxy struct {
	RequestHeaderOptions
	// Authorities are the authorities in ClientCAFile. Without them, no proxy is trusted.
	Authorities *x509.CertPool
}

// RequestHeaderOptions configure authentication by the headers of proxies in front of the server.
// They have the names of kube-apiserver's flags --requestheader-*.
type RequestHeaderOptions struct {
	// ClientCAFile is a file in PEM with the authorities of the proxies' client certificates. It is
	// read once. Default: no proxy is trusted.
	ClientCAFile string
	// AllowedNames are the common names that certificates of proxies must have. Default: any.
	AllowedNames []string
	// UsernameHeaders and UIDHeaders are the headers with the name and the UID of the user; of
	// several, the first that is present counts. Usual are X-Remote-User and X-Remote-Uid. Default:
	// none; without UsernameHeaders, no proxy is trusted.
	UsernameHeaders, UIDHeaders []string
	// GroupHeaders are the headers with the groups of the user; all of them count. Usual is
	// X-Remote-Group. Default: none.
	GroupHeaders []string
	// ExtraHeadersPrefix are the prefixes of headers with extra attributes of the user. Usual is
	// X-Remote-Extra-. Default: none.
	ExtraHeadersPrefix []string
}

// Validate returns an error if a name, a header or a prefix is empty. It does not read
// ClientCAFile.
func (o *RequestHeaderOptions) Validate() error {
	for name, values := range map[string][]string{
		"AllowedNames": o.AllowedNames, "UsernameHeaders": o.UsernameHeaders, "UIDHeaders": o.UIDHeaders, "GroupHeaders": o.GroupHeaders, "ExtraHeadersPrefix": o.ExtraHeadersPrefix,
	} {
		for _, value := range values {
			if strings.TrimSpace(value) == "" {
				return fmt.Errorf("Options.Aggregation.RequestHeader.%s has an empty entry: remove it", name)
			}
		}
	}
	return nil
}

// Behind makes the Authenticator trust a front proxy. Call it before the first request.
func (a *Authenticator) Behind(f *FrontProxy) { a.proxy = f }

// user returns the user that the front proxy names in the headers of a request; nil if there is no
// proxy, or if it names none.
func (f *FrontProxy) user(r *http.Request, c *connection) (*User, error) {
	if f == nil || f.Authorities == nil || r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return nil, nil
	}
	u := f.User(r.Header)
	if u == nil {
		return nil, nil
	}
	if c == nil {
		c = &connection{}
	}
	if _, err := c.fronted.get(f.Authorities, func() (*User, time.Time, error) {
		expires, err := f.verify(r.TLS.PeerCertificates)
		return nil, expires, err
	}); err != nil {
		return nil, err
	}
	return u, nil
}

// User returns the user that headers name; nil if they name none. It is for headers from a proxy
// that has been authenticated.
func (o *RequestHeaderOptions) User(h http.Header) *User {
	name := first(h, o.UsernameHeaders)
	if name == "" {
		return nil
	}
	u := &User{Name: name, UID: first(h, o.UIDHeaders)}
	for _, header := range o.GroupHeaders {
		for _, group := range h.Values(header) {
			if group != "" {
				u.Groups = append(u.Groups, group)
			}
		}
	}
	for _, prefix := range o.ExtraHeadersPrefix {
		for header, values := range h {
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
	return u
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

// clear removes the headers of a front proxy from every request, so that no later step trusts them.
func (f *FrontProxy) clear(h http.Header) {
	if f == nil {
		return
	}
	for _, names := range [][]string{f.UsernameHeaders, f.UIDHeaders, f.GroupHeaders} {
		for _, name := range names {
			h.Del(name)
		}
	}
	for _, prefix := range f.ExtraHeadersPrefix {
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

// first returns the first value that is not empty, in the order of the headers.
func first(h http.Header, names []string) string {
	for _, name := range names {
		if value := h.Get(name); value != "" {
			return value
		}
	}
	return ""
}
