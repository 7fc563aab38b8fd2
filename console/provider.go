package console

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	gooidc "github.com/coreos/go-oidc"
	"golang.org/x/oauth2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// A Provider is an OpenID Connect provider that logs users in, by the authorization code flow with
// PKCE (RFC 7636). The console is a public client: it has no secret. The provider must permit the
// redirect URI ORIGIN/console/callback, where ORIGIN is that of the page, such as
// https://kapok.example.com:6443.
//
// The bearer token of the session is the ID token, which API must accept: its audience is ClientID.
type Provider struct {
	// Issuer is the URL of the provider, https://... Required.
	Issuer string
	// ClientID is the ID of the console at the provider. Required.
	ClientID string
	// Scopes are requested besides openid. Default: profile, email, groups, as far as the provider
	// says that it has them.
	Scopes []string
	// Transport sends requests to the provider. Default: http.DefaultTransport.
	Transport http.RoundTripper
}

const (
	loginPath    = Path + "/login"
	callbackPath = Path + "/callback"

	// providerPatience limits a request to the provider.
	providerPatience = 10 * time.Second
	// providerLife is the time for which the endpoints of the provider are remembered.
	providerLife = time.Hour
	// maxProvider limits the requests to the provider at a time, which clients cause that are not
	// logged in.
	maxProvider = 8
	// longestPage is the maximum length of a page to return to: it is in a cookie.
	longestPage = 1000
)

// logins are the logins by a Provider. They have no state here: what the callback needs is in a
// cookie that only this process can read and write.
type logins struct {
	provider Provider
	client   *http.Client
	seal     cipher.AEAD
	places   chan struct{} // of requests to the provider

	mu    sync.Mutex
	known *known // guarded by mu
}

// known are the endpoints of the provider.
type known struct {
	endpoint oauth2.Endpoint
	scopes   []string
	at       time.Time
}

// pending is a login between its start and the callback.
type pending struct {
	State    string
	Nonce    string
	Verifier string
	Origin   string
	To       string // the page to return to, a path with a query
	Begun    time.Time
}

// Validate returns an error if a required field is missing or invalid.
func (p *Provider) Validate() error {
	issuer, err := url.Parse(p.Issuer)
	switch {
	case err != nil || issuer.Scheme != "https" || issuer.Host == "":
		return fmt.Errorf("the issuer %q is not a URL with https://", p.Issuer)
	case p.ClientID == "":
		return errors.New("the console has no client ID at the provider")
	}
	return nil
}

func newLogins(p Provider) *logins {
	key := make([]byte, 32)
	_, _ = rand.Read(key)                          // never fails
	block, _ := aes.NewCipher(key)                 // of 32 bytes
	seal, _ := cipher.NewGCMWithRandomNonce(block) // of AES
	return &logins{
		provider: p, seal: seal, places: make(chan struct{}, maxProvider),
		client: &http.Client{Transport: p.Transport, Timeout: providerPatience},
	}
}

// serve serves the paths of the login, and reports whether the path is one.
func (l *logins) serve(c *Console, w http.ResponseWriter, r *http.Request) bool {
	begin := r.URL.Path == loginPath
	if !begin && r.URL.Path != callbackPath {
		return false
	}
	w.Header().Set("Cache-Control", "no-store")
	if r.Method != http.MethodGet {
		w.Header().Set("Allow", "GET")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return true
	}
	select {
	case l.places <- struct{}{}:
		defer func() { <-l.places }()
	default:
		w.Header().Set("Retry-After", "1")
		http.Error(w, "too many logins are under way", http.StatusTooManyRequests)
		return true
	}
	ctx, cancel := context.WithTimeout(gooidc.ClientContext(r.Context(), l.client), providerPatience)
	defer cancel()
	to, cookie, err := "", (*http.Cookie)(nil), error(nil)
	if begin {
		to, cookie, err = l.begin(ctx, r)
	} else {
		to, err = l.end(ctx, c, r)
		cookie = l.cookie(r, "", -1)
	}
	if cookie != nil {
		http.SetCookie(w, cookie)
	}
	if err != nil {
		status := http.StatusBadGateway
		if refused := (*apierrors.StatusError)(nil); errors.As(err, &refused) {
			status = int(refused.ErrStatus.Code)
		}
		http.Error(w, "The login has failed: "+err.Error(), status)
		return true
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
	return true
}

// begin returns the address of the provider's page, and a cookie for the callback.
func (l *logins) begin(ctx context.Context, r *http.Request) (string, *http.Cookie, error) {
	found, err := l.discover(ctx)
	if err != nil {
		return "", nil, err
	}
	p := pending{
		State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(),
		Origin: origin(r), To: ownPage(r.URL.Query().Get("to")), Begun: time.Now(),
	}
	plain, err := json.Marshal(p)
	if err != nil {
		return "", nil, err
	}
	sealed := base64.RawURLEncoding.EncodeToString(l.seal.Seal(nil, nil, plain, nil))
	address := l.config(found, p.Origin).AuthCodeURL(p.State, oauth2.S256ChallengeOption(p.Verifier), gooidc.Nonce(p.Nonce))
	return address, l.cookie(r, sealed, int(linkLife/time.Second)), nil
}

// end takes the code that the provider has issued, and returns the page with a link for a session.
func (l *logins) end(ctx context.Context, c *Console, r *http.Request) (string, error) {
	p, ok := l.pending(r)
	query := r.URL.Query()
	if !ok || subtle.ConstantTimeCompare([]byte(p.State), []byte(query.Get("state"))) != 1 {
		return "", apierrors.NewBadRequest("it was not begun in this browser, or too long ago")
	}
	if refusal := query.Get("error"); refusal != "" {
		return "", forbidden(strings.TrimSpace("the provider has refused it: " + refusal + " " + query.Get("error_description")))
	}
	found, err := l.discover(ctx)
	if err != nil {
		return "", err
	}
	answer, err := l.config(found, p.Origin).Exchange(ctx, query.Get("code"), oauth2.VerifierOption(p.Verifier))
	if err != nil {
		return "", fmt.Errorf("get a token from the provider: %w", err)
	}
	token, _ := answer.Extra("id_token").(string)
	if nonceOf(token) != p.Nonce {
		return "", forbidden("the provider's response has no ID token for it")
	}
	if !c.accepts(r, token) {
		return "", forbidden("the server does not accept the ID token of the provider")
	}
	to, err := url.Parse(p.To)
	if err != nil {
		return "", err
	}
	values := to.Query()
	values.Set("token", c.sessions.link(token))
	to.RawQuery = values.Encode()
	return to.String(), nil
}

// pending returns the login of the browser that sends a request, if it is not too old.
func (l *logins) pending(r *http.Request) (p pending, ok bool) {
	cookie, err := r.Cookie(loginCookie(r))
	if err != nil {
		return p, false
	}
	sealed, err := base64.RawURLEncoding.DecodeString(cookie.Value)
	if err != nil {
		return p, false
	}
	plain, err := l.seal.Open(nil, nil, sealed, nil)
	if err != nil || json.Unmarshal(plain, &p) != nil {
		return p, false
	}
	return p, p.Origin == origin(r) && time.Since(p.Begun) < linkLife
}

// discover returns the endpoints of the provider.
func (l *logins) discover(ctx context.Context) (*known, error) {
	l.mu.Lock()
	found := l.known
	l.mu.Unlock()
	if found != nil && time.Since(found.at) < providerLife {
		return found, nil
	}
	provider, err := gooidc.NewProvider(ctx, l.provider.Issuer)
	if err != nil {
		return nil, fmt.Errorf("ask the provider for its endpoints: %w", err)
	}
	var offered struct {
		Scopes []string `json:"scopes_supported"`
	}
	if err := provider.Claims(&offered); err != nil {
		return nil, fmt.Errorf("the provider's endpoints: %w", err)
	}
	found = &known{endpoint: provider.Endpoint(), scopes: l.scopes(offered.Scopes), at: time.Now()}
	// A public client names itself in the body.
	found.endpoint.AuthStyle = oauth2.AuthStyleInParams
	l.mu.Lock()
	l.known = found
	l.mu.Unlock()
	return found, nil
}

func (l *logins) scopes(offered []string) []string {
	scopes := []string{gooidc.ScopeOpenID}
	if l.provider.Scopes != nil {
		return append(scopes, l.provider.Scopes...)
	}
	for _, wanted := range []string{"profile", "email", "groups"} {
		if slices.Contains(offered, wanted) {
			scopes = append(scopes, wanted)
		}
	}
	return scopes
}

func (l *logins) config(k *known, origin string) *oauth2.Config {
	return &oauth2.Config{ClientID: l.provider.ClientID, Endpoint: k.endpoint, Scopes: k.scopes, RedirectURL: origin + callbackPath}
}

func loginCookie(r *http.Request) string { return cookieName(r) + "-login" }

// cookie returns the cookie of a login. The callback comes from the provider's site, so that it
// cannot be strict.
func (l *logins) cookie(r *http.Request, value string, age int) *http.Cookie {
	c := newCookie(r, value, age)
	c.Name, c.SameSite = loginCookie(r), http.SameSiteLaxMode
	return c
}

// ownPage returns the page that a login returns to: to, if that is one of the console.
func ownPage(to string) string {
	u, err := url.Parse(to)
	if err != nil || len(to) > longestPage || u.Scheme != "" || u.Host != "" || path.Clean(u.Path) != u.Path || u.Path != Path && !strings.HasPrefix(u.Path, Path+"/") {
		return Path
	}
	return (&url.URL{Path: u.Path, RawQuery: u.RawQuery}).String()
}

// nonceOf returns the nonce of an ID token, whose signature API checks.
func nonceOf(token string) string {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return ""
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	var claims struct{ Nonce string }
	if err != nil || json.Unmarshal(payload, &claims) != nil {
		return ""
	}
	return claims.Nonce
}
