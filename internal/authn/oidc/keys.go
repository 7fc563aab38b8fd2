package oidc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	gooidc "github.com/coreos/go-oidc"
)

// patience is the time between two attempts to reach an issuer, and the timeout of each, as in
// Kubernetes.
const patience = 10 * time.Second

// keys are the keys of an issuer, fetched when a token first needs them. They implement go-oidc's
// KeySet, and fetch new keys when a token is signed with an unknown one.
type keys struct {
	lifetime context.Context // of the generation; carries the client
	issuer   string

	found atomic.Pointer[foundKeys]
	turn  chan struct{} // held during discovery

	// Guarded by turn.
	next   time.Time // time of the next attempt
	missed error     // error of the last attempt
}

type foundKeys struct{ gooidc.KeySet }

// newKeys returns the keys of an issuer. If discovery is not "", it is the URL of the discovery
// document.
func newKeys(lifetime context.Context, client *http.Client, issuer, discovery string) (*keys, error) {
	if discovery != "" {
		at, err := url.Parse(discovery)
		if err != nil {
			return nil, fmt.Errorf("oidc: invalid discovery URL: %w", err)
		}
		elsewhere := *client
		elsewhere.Transport = &detour{
			RoundTripper: client.Transport, from: strings.TrimSuffix(issuer, "/") + "/.well-known/openid-configuration", to: at,
		}
		client = &elsewhere
	}
	return &keys{lifetime: gooidc.ClientContext(lifetime, client), issuer: issuer, turn: make(chan struct{}, 1)}, nil
}

// VerifySignature implements go-oidc's KeySet. The caller has checked issuer, audience, times and
// algorithm of the token, so that arbitrary clients cannot make the server send requests.
func (k *keys) VerifySignature(ctx context.Context, jwt string) ([]byte, error) {
	if err := k.find(ctx); err != nil {
		return nil, err
	}
	return k.found.Load().VerifySignature(ctx, jwt)
}

// find discovers the URL of the issuer's keys, unless it is known. After a failure, it returns the
// same error until patience has passed.
func (k *keys) find(ctx context.Context) error {
	if k.found.Load() != nil {
		return nil
	}
	select {
	case k.turn <- struct{}{}:
		defer func() { <-k.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	switch {
	case k.found.Load() != nil:
		return nil
	case k.lifetime.Err() != nil:
		return k.lifetime.Err()
	case time.Now().Before(k.next):
		return fmt.Errorf("oidc: authenticator for issuer %q is not initialized: %w", k.issuer, k.missed)
	}
	set, err := k.discover()
	if err != nil {
		k.next, k.missed = time.Now().Add(patience), err
		return fmt.Errorf("oidc: authenticator for issuer %q is not healthy: %w", k.issuer, err)
	}
	k.found.Store(&foundKeys{set})
	return nil
}

func (k *keys) discover() (gooidc.KeySet, error) {
	ctx, cancel := context.WithTimeout(k.lifetime, patience)
	defer cancel()
	provider, err := gooidc.NewProvider(ctx, k.issuer)
	if err != nil {
		return nil, err
	}
	var document struct {
		Keys string `json:"jwks_uri"`
	}
	if err := provider.Claims(&document); err != nil {
		return nil, err
	}
	if document.Keys == "" {
		return nil, errors.New("provider did not return JWKS URL")
	}
	return gooidc.NewRemoteKeySet(k.lifetime, document.Keys), nil
}

// detour redirects requests for one URL to another.
type detour struct {
	http.RoundTripper
	from string
	to   *url.URL
}

func (d *detour) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet && r.URL.String() == d.from {
		r = r.Clone(r.Context())
		r.Host, r.URL = "", d.to
	}
	return d.RoundTripper.RoundTrip(r)
}
