package authn

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

// Authenticator determines the user of a request.
type Authenticator struct {
	authorities atomic.Pointer[x509.CertPool]
	tokens      Tokens
	anonymous   Anonymity
	proxy       *FrontProxy // nil if there is none
}

// NewAuthenticator returns an Authenticator that accepts client certificates of the authorities,
// none if nil, and tokens.
func NewAuthenticator(authorities *x509.CertPool, tokens ...TokenAuthenticator) *Authenticator {
	a := &Authenticator{tokens: tokens}
	a.Trust(authorities)
	return a
}

// Trust replaces the authorities of client certificates, also for open connections. It may be
// called while requests are served.
func (a *Authenticator) Trust(authorities *x509.CertPool) { a.authorities.Store(authorities) }

// Anonymity defines which requests are accepted without credentials; authorization is separate. The
// zero value accepts all.
type Anonymity struct {
	Refused bool     // for all paths
	Paths   []string // if not empty, only these are accepted
}

// Let sets which requests may be anonymous. Call it before the first request.
func (a *Authenticator) Let(anonymous Anonymity) { a.anonymous = anonymous }

func (a *Anonymity) lets(path string) bool {
	return !a.Refused && (len(a.Paths) == 0 || slices.Contains(a.Paths, path))
}

// Identify returns the user who sends the request. It removes the credentials that it has accepted
// from the request's header, so that no later step sees a secret. It returns a 401 error for
// invalid credentials.
func (a *Authenticator) Identify(r *http.Request) (*User, error) {
	u, err := a.sender(r)
	if err != nil {
		return nil, apierrors.NewUnauthorized("Unauthorized")
	}
	r.Header.Del("Authorization")
	a.proxy.clear(r.Header)
	return u, nil
}

// sender returns the user of the credentials. A front proxy's headers precede its certificate, a
// certificate precedes a token, and all precede the in-process connection. As in Kubernetes, a
// valid token makes up for an invalid certificate.
func (a *Authenticator) sender(r *http.Request) (*User, error) {
	c := connectionFrom(r.Context())
	u, proxyErr := a.proxy.user(r, c)
	if u != nil {
		return u, nil
	}
	u, certErr := a.certified(r, c) // the certificate may name a user
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
		return nil, errors.New("the user of the request is not known")
	}
	return anonymous(), nil
}

// bearerToken returns the token of the Authorization header; "" for other schemes, which Kubernetes
// ignores.
func bearerToken(h http.Header) string {
	parts := strings.SplitN(strings.TrimSpace(h.Get("Authorization")), " ", 3)
	if len(parts) < 2 || !strings.EqualFold(parts[0], "bearer") {
		return ""
	}
	return parts[1]
}

// certified returns the user whom the client's certificate names; nil without an error if there is
// none.
func (a *Authenticator) certified(r *http.Request, c *connection) (*User, error) {
	authorities := a.authorities.Load()
	if authorities == nil || r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return nil, nil
	}
	if c == nil {
		c = &connection{}
	}
	return c.certified.get(authorities, func() (*User, time.Time, error) {
		expires, err := verify(authorities, r.TLS.PeerCertificates)
		if err != nil {
			return nil, expires, err
		}
		u, err := certificateUser(r.TLS.PeerCertificates[0])
		return u, expires, err
	})
}

func certificateUser(c *x509.Certificate) (*User, error) {
	switch c.Subject.CommonName {
	case "":
		return nil, nil
	case KubeletClient:
		return nil, errors.New("the client certificate is for kubelets, not for this server")
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

// WithAuthenticated returns the groups of an authenticated user.
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
