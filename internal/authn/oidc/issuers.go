// Package oidc authenticates tokens of OpenID Connect providers, which Kubernetes'
// AuthenticationConfiguration or kube-apiserver's --oidc-... flags describe. Verification, claims
// and rules are Kubernetes' own (k8s.io/apiserver/plugin/pkg/authenticator/token/oidc). This
// package fetches the keys of a provider, when a token first needs them. So a provider can be down
// when the server starts, and unused providers get no requests.
//
// [Issuers] start no goroutines. The libraries do while they fetch keys or distributed claims;
// Close ends these, and waits for requests under way.
package oidc

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kapok-dev/kapok/internal/authn"

	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	authenticationcel "k8s.io/apiserver/pkg/authentication/cel"
	"k8s.io/apiserver/plugin/pkg/authenticator/token/oidc"
)

// Issuers authenticate tokens of the configured issuers. They implement authn.TokenAuthenticator.
type Issuers struct {
	current atomic.Pointer[generation]
}

// A generation is the issuers of one configuration.
type generation struct {
	config  *apiserver.AuthenticationConfiguration
	issuers []issuer
	end     context.CancelFunc
}

type issuer struct {
	authenticator.Token
	keys      *keys
	transport *transport
}

// New returns the issuers of a valid configuration. Tokens must be signed with one of the
// algorithms; if there are none, with one that Kubernetes allows.
func New(config *apiserver.AuthenticationConfiguration, algorithms []string) (*Issuers, error) {
	g, err := newGeneration(config, algorithms)
	if err != nil {
		return nil, err
	}
	i := &Issuers{}
	i.current.Store(g)
	return i, nil
}

// Replace activates another configuration once all its issuers have been reached. If ctx ends
// before that, or an issuer has no keys, the old configuration stays active. Replace and Close must
// not be called concurrently.
func (i *Issuers) Replace(ctx context.Context, config *apiserver.AuthenticationConfiguration, algorithms []string) error {
	g, err := newGeneration(config, algorithms)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, g.end)()
	for _, one := range g.issuers {
		if err := one.keys.find(ctx); err != nil {
			g.close()
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		g.close()
		return err
	}
	i.current.Swap(g).close()
	return nil
}

// Close aborts requests to providers. No token is accepted afterwards.
func (i *Issuers) Close() { i.current.Load().close() }

// AuthenticateToken implements authn.TokenAuthenticator.
func (i *Issuers) AuthenticateToken(ctx context.Context, token string, wanted []string) (*authn.User, []string, error) {
	for _, one := range i.current.Load().issuers {
		response, ok, err := one.AuthenticateToken(ctx, token)
		if err != nil {
			return nil, nil, err // issuers differ, so no other one accepts the token
		}
		if ok {
			return userOf(response), wanted, nil
		}
	}
	return nil, nil, nil
}

func userOf(r *authenticator.Response) *authn.User {
	return &authn.User{
		Name:   r.User.GetName(),
		UID:    r.User.GetUID(),
		Groups: authn.WithAuthenticated(r.User.GetGroups()),
		Extra:  r.User.GetExtra(),
	}
}

func newGeneration(config *apiserver.AuthenticationConfiguration, algorithms []string) (_ *generation, err error) {
	if len(algorithms) == 0 {
		algorithms = oidc.AllValidSigningAlgorithms()
	}
	ctx, cancel := context.WithCancel(context.Background())
	g := &generation{config: config, end: cancel}
	defer func() {
		if err != nil {
			g.close()
		}
	}()
	if len(config.JWT) == 0 {
		return g, nil
	}
	compiler := authenticationcel.NewDefaultCompiler()
	for _, jwt := range config.JWT {
		one, err := newIssuer(ctx, jwt, compiler, algorithms)
		if err != nil {
			return nil, err
		}
		g.issuers = append(g.issuers, one)
	}
	return g, nil
}

func newIssuer(ctx context.Context, jwt apiserver.JWTAuthenticator, compiler authenticationcel.Compiler, algorithms []string) (issuer, error) {
	t, err := newTransport(jwt.Issuer.CertificateAuthority)
	if err != nil {
		return issuer{}, err
	}
	client := &http.Client{Transport: t, Timeout: 30 * time.Second}
	keys, err := newKeys(ctx, client, jwt.Issuer.URL, jwt.Issuer.DiscoveryURL)
	if err != nil {
		return issuer{}, err
	}
	jwt.Issuer.DiscoveryURL = "" // keys use it instead
	token, err := oidc.New(ctx, oidc.Options{
		JWTAuthenticator:     jwt,
		KeySet:               keys,
		Client:               client,
		Compiler:             compiler,
		SupportedSigningAlgs: algorithms,
	})
	if err != nil {
		return issuer{}, err
	}
	return issuer{token, keys, t}, nil
}

func (g *generation) close() {
	g.end()
	for _, one := range g.issuers {
		one.transport.close()
	}
}

// transport is an http.Transport that can wait for the end of its last request.
type transport struct {
	http   *http.Transport
	mu     sync.Mutex // orders requests and closing
	closed bool
	busy   sync.WaitGroup
}

// newTransport trusts the authorities in PEM; if there are none, those of the system.
func newTransport(authorities string) (*transport, error) {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConns, t.MaxIdleConnsPerHost = 4, 1
	t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	if authorities != "" {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM([]byte(authorities)) {
			return nil, errors.New("oidc: the certificate authority holds no certificate in PEM")
		}
		t.TLSClientConfig.RootCAs = pool
	}
	return &transport{http: t}, nil
}

func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return nil, fmt.Errorf("%s: %w", r.URL.Host, context.Canceled)
	}
	t.busy.Add(1)
	t.mu.Unlock()
	defer t.busy.Done()
	return t.http.RoundTrip(r)
}

// close rejects new requests and waits for those under way, whose context has ended.
func (t *transport) close() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.busy.Wait()
	t.http.CloseIdleConnections()
}
