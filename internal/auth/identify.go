package auth

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"encoding/hex"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Authenticator tells who sends a request.
type Authenticator struct {
	authorities atomic.Pointer[x509.CertPool]
	tokens      Tokens
	anonymous   Anonymity
	proxy       *FrontProxy // nil if there is none
}

// NewAuthenticator returns an Authenticator that trusts client certificates of
// the authorities, none if nil, and bearers of the tokens.
func NewAuthenticator(authorities *x509.CertPool, tokens ...TokenAuthenticator) *Authenticator {
	a := &Authenticator{tokens: tokens}
	a.Trust(authorities)
	return a
}

// Trust puts other authorities in the place of those before, for connections that are there already, too. It may be called
// while requests are served.
func (a *Authenticator) Trust(authorities *x509.CertPool) { a.authorities.Store(authorities) }

// Anonymity says who is let in without saying who he is; what he may then is another question. The zero value is everybody.
type Anonymity struct {
	Refused bool     // for all paths
	Paths   []string // if there are any, for no others
}

// Let says which requests may come from nobody knows whom. It is called before the first one.
func (a *Authenticator) Let(anonymous Anonymity) { a.anonymous = anonymous }

func (a *Anonymity) lets(path string) bool {
	return !a.Refused && (len(a.Paths) == 0 || slices.Contains(a.Paths, path))
}

// Identify returns the user who sends the request. It removes from the request's header what it has
// understood, so that no later step sees a secret. The error is 401 for credentials that do not hold.
func (a *Authenticator) Identify(r *http.Request) (*User, error) {
	u, err := a.sender(r)
	if err != nil {
		return nil, apierrors.NewUnauthorized("Unauthorized")
	}
	r.Header.Del("Authorization")
	a.proxy.clear(r.Header)
	return u, nil
}

// sender is who the credentials say. A front proxy's word goes before its certificate, a certificate before a token, and
// any of them before the mark of the connection; one that holds makes up for one that
// does not, as in Kubernetes.
func (a *Authenticator) sender(r *http.Request) (*User, error) {
	c := connectionFrom(r.Context())
	u, proxyErr := a.proxy.user(r, c)
	if u != nil {
		return u, nil
	}
	u, certErr := a.certified(r, c) // it may be its holder's own
	if u != nil {
		return u, nil
	}
	if certErr == nil {
		certErr = proxyErr
	}
	if token := bearerToken(r.Header); token != "" {
		u, _, err := a.tokens.AuthenticateToken(r.Context(), token, nil)
		if u == nil && err == nil {
			err = errors.New("invalid bearer token")
		}
		return u, err
	}
	if certErr != nil {
		return nil, certErr
	}
	if c != nil && c.inProcess {
		return Admin(), nil
	}
	if !a.anonymous.lets(r.URL.Path) {
		return nil, errors.New("nobody knows who sends the request")
	}
	return anonymous(), nil
}

// bearerToken returns the token of the Authorization header, and nothing for
// other schemes, which Kubernetes passes over.
func bearerToken(h http.Header) string {
	parts := strings.SplitN(strings.TrimSpace(h.Get("Authorization")), " ", 3)
	if len(parts) < 2 || !strings.EqualFold(parts[0], "bearer") {
		return ""
	}
	return parts[1]
}

// certified is who the client's certificate names; nil without error if there
// is none. Verifying costs more than most requests, so it is done once a
// connection, or when other authorities are trusted, and only the time is looked at again.
func (a *Authenticator) certified(r *http.Request, c *connection) (*User, error) {
	authorities := a.authorities.Load()
	if authorities == nil || r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return nil, nil
	}
	if c == nil {
		c = &connection{}
	}
	v := c.verified.Load()
	if v == nil || v.by != authorities {
		v = &verified{by: authorities}
		v.user, v.expires, v.err = identified(authorities, r.TLS.PeerCertificates)
		c.verified.Store(v)
	}
	if v.err != nil {
		return nil, v.err
	}
	if time.Now().After(v.expires) {
		return nil, errors.New("client certificate has expired")
	}
	return v.user, nil
}

// identified returns the user that a certificate stands for, nil if it names nobody,
// and until when it holds.
func identified(authorities *x509.CertPool, certs []*x509.Certificate) (*User, time.Time, error) {
	expires, err := verify(authorities, certs)
	if err != nil {
		return nil, time.Time{}, err
	}
	u, err := certificateUser(certs[0])
	return u, expires, err
}

// verify returns until when the certificate of a client holds, which the authorities must have signed.
func verify(authorities *x509.CertPool, certs []*x509.Certificate) (time.Time, error) {
	opts := x509.VerifyOptions{
		Roots:         authorities,
		Intermediates: x509.NewCertPool(),
		KeyUsages:     []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	for _, c := range certs[1:] {
		opts.Intermediates.AddCert(c)
	}
	chains, err := certs[0].Verify(opts)
	if err != nil {
		return time.Time{}, err
	}
	// Any of the chains will do: the one that holds longest.
	var expires time.Time
	for _, chain := range chains {
		end := chain[0].NotAfter
		for _, c := range chain[1:] {
			if c.NotAfter.Before(end) {
				end = c.NotAfter
			}
		}
		if end.After(expires) {
			expires = end
		}
	}
	return expires, nil
}

func certificateUser(c *x509.Certificate) (*User, error) {
	if c.Subject.CommonName == "" {
		return nil, nil
	}
	// Kubernetes' attribute for a user's UID: k8s.io/apimachinery/pkg/apis/asn1.
	uidAttribute := asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57683, 2}
	uid := ""
	for _, name := range c.Subject.Names {
		if !name.Type.Equal(uidAttribute) {
			continue
		}
		s, ok := name.Value.(string)
		if !ok || s == "" || uid != "" {
			return nil, errors.New("client certificate must have one UID, a string that is not empty")
		}
		uid = s
	}
	sum := sha256.Sum256(c.Raw)
	return &User{
		Name:   c.Subject.CommonName,
		UID:    uid,
		Groups: WithAuthenticated(c.Subject.Organization),
		Extra: map[string][]string{
			"authentication.kubernetes.io/credential-id": {"X509SHA256=" + hex.EncodeToString(sum[:])},
		},
	}, nil
}

// WithAuthenticated returns the groups of somebody who is known.
func WithAuthenticated(groups []string) []string {
	all := make([]string, 0, len(groups)+1)
	for _, g := range groups {
		if g == Authenticated || g == Unauthenticated {
			return groups
		}
		all = append(all, g)
	}
	return append(all, Authenticated)
}
