package oidc

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/internal/authn"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
}

// provider is an OpenID Connect provider.
type provider struct {
	*httptest.Server
	mu    sync.Mutex
	down  bool
	name  string // of the issuer, if it differs from the server's URL
	keys  map[string]crypto.Signer
	asked map[string]int // number of requests by path
}

func newProvider(t *testing.T) *provider {
	t.Helper()
	p := &provider{keys: map[string]crypto.Signer{"one": newRSA(t)}, asked: map[string]int{}}
	p.Server = httptest.NewTLSServer(p)
	p.name = p.URL
	t.Cleanup(p.Close)
	return p
}

func newRSA(t *testing.T) *rsa.PrivateKey {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// set changes the provider's behaviour.
func (p *provider) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

func (p *provider) count(path string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked[path]
}

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked[r.URL.Path]++
	if p.down {
		http.Error(w, "out of order", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	switch r.URL.Path {
	case "/.well-known/openid-configuration", "/elsewhere":
		fmt.Fprintf(w, `{"issuer": %q, "jwks_uri": %q}`, p.name, p.URL+"/keys")
	case "/keys":
		var set []map[string]string
		for id, key := range p.keys {
			switch public := key.Public().(type) {
			case *rsa.PublicKey:
				set = append(set, map[string]string{"kty": "RSA", "kid": id, "alg": "RS256", "use": "sig",
					"n": b64(public.N.Bytes()), "e": b64(big.NewInt(int64(public.E)).Bytes())})
			case *ecdsa.PublicKey:
				raw, _ := public.Bytes() // P-256: one byte, and 32 for each coordinate
				set = append(set, map[string]string{"kty": "EC", "kid": id, "crv": "P-256", "use": "sig", "x": b64(raw[1:33]), "y": b64(raw[33:])})
			}
		}
		json.NewEncoder(w).Encode(map[string]any{"keys": set})
	default:
		http.NotFound(w, r)
	}
}

// authority returns the provider's certificate in the form of configurations.
func (p *provider) authority() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.Certificate().Raw}))
}

func b64(data []byte) string { return base64.RawURLEncoding.EncodeToString(data) }

type claims = map[string]any

// claims returns those of a valid token, with changes; nil removes a claim.
func (p *provider) claims(change claims) claims {
	all := claims{
		"iss": p.name, "aud": "kapok", "sub": "alice", "groups": []string{"dev", "ops"}, "jti": "j-1",
		"iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(),
	}
	for name, value := range change {
		if all[name] = value; value == nil {
			delete(all, name)
		}
	}
	return all
}

// sign returns a token. The key may also be a secret, for HS256, or nil, for alg none.
func sign(t *testing.T, alg, id string, key any, c claims) string {
	t.Helper()
	header, err := json.Marshal(map[string]string{"alg": alg, "kid": id, "typ": "JWT"})
	if err != nil {
		t.Fatal(err)
	}
	payload, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	text := b64(header) + "." + b64(payload)
	sum := sha256.Sum256([]byte(text))
	var signature []byte
	switch key := key.(type) {
	case *rsa.PrivateKey:
		if signature, err = rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:]); err != nil {
			t.Fatal(err)
		}
	case *ecdsa.PrivateKey:
		r, s, err := ecdsa.Sign(rand.Reader, key, sum[:])
		if err != nil {
			t.Fatal(err)
		}
		signature = append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
	case []byte:
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(text))
		signature = mac.Sum(nil)
	}
	return text + "." + b64(signature)
}

// issuers returns the issuers of a configuration. Its first %s stands for the issuer's URL, and the
// second for its certificate.
func issuers(t *testing.T, p *provider, config string) *Issuers {
	t.Helper()
	i, err := New(decode(t, p, config), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(i.Close)
	return i
}

const plain = `
apiVersion: apiserver.config.k8s.io/v1
kind: AuthenticationConfiguration
jwt:
- issuer: {url: %s, audiences: [kapok], certificateAuthority: %s}
  claimMappings:
    username: {claim: sub, prefix: "oidc:"}
    groups: {claim: groups, prefix: ""}
`

func TestTokens(t *testing.T) {
	p := newProvider(t)
	p.keys["ec"], _ = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	i := issuers(t, p, plain)
	one, ec := p.keys["one"], p.keys["ec"]
	good := sign(t, "RS256", "one", one, p.claims(nil))
	parts := strings.Split(good, ".")
	der, err := x509.MarshalPKIXPublicKey(one.Public())
	if err != nil {
		t.Fatal(err)
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	forged, err := json.Marshal(p.claims(claims{"sub": "admin"}))
	if err != nil {
		t.Fatal(err)
	}

	for _, tc := range []struct {
		name, token string
		want        *authn.User // nil for none
		err         string      // "" if another authenticator may accept the token
	}{
		{name: "good", token: good, want: &authn.User{Name: "oidc:alice", Groups: []string{"dev", "ops", "system:authenticated"},
			Extra: map[string][]string{"authentication.kubernetes.io/credential-id": {"JTI=j-1"}}}},
		{name: "good, another algorithm", token: sign(t, "ES256", "ec", ec, p.claims(claims{"jti": nil, "groups": nil})),
			want: &authn.User{Name: "oidc:alice", Groups: []string{"system:authenticated"}}},
		{name: "one group", token: sign(t, "RS256", "one", one, p.claims(claims{"jti": nil, "groups": "dev"})),
			want: &authn.User{Name: "oidc:alice", Groups: []string{"dev", "system:authenticated"}}},
		{name: "another issuer", token: sign(t, "RS256", "one", one, p.claims(claims{"iss": "https://example.com"}))},
		{name: "no token", token: "x"},
		{name: "empty", token: ""},
		{name: "two parts", token: "a.b"},
		{name: "not base64", token: "!.!.!"},
		{name: "another audience", token: sign(t, "RS256", "one", one, p.claims(claims{"aud": "else"})), err: "expected audience"},
		{name: "no audience", token: sign(t, "RS256", "one", one, p.claims(claims{"aud": nil})), err: "expected audience"},
		{name: "expired", token: sign(t, "RS256", "one", one, p.claims(claims{"exp": time.Now().Add(-time.Minute).Unix()})), err: "expired"},
		{name: "without end", token: sign(t, "RS256", "one", one, p.claims(claims{"exp": nil})), err: "expired"},
		{name: "not yet", token: sign(t, "RS256", "one", one, p.claims(claims{"nbf": time.Now().Add(time.Hour).Unix()})), err: "before the nbf"},
		{name: "no name", token: sign(t, "RS256", "one", one, p.claims(claims{"sub": nil})), err: "parse username claims"},
		{name: "alg none", token: sign(t, "none", "", nil, p.claims(nil)), err: "unsupported algorithm"},
		{name: "HS256 with the public key", token: sign(t, "HS256", "one", public, p.claims(nil)), err: "unsupported algorithm"},
		{name: "HS256 that says RS256", token: sign(t, "RS256", "one", public, p.claims(nil)), err: "failed to verify"},
		{name: "ECDSA that says RSA", token: sign(t, "RS256", "one", ec, p.claims(nil)), err: "failed to verify"},
		{name: "another's key", token: sign(t, "RS256", "one", newRSA(t), p.claims(nil)), err: "failed to verify"},
		{name: "a key that is not there", token: sign(t, "RS256", "two", one, p.claims(nil)), err: "failed to verify"},
		{name: "forged", token: parts[0] + "." + b64(forged) + "." + parts[2], err: "failed to verify"},
		{name: "without signature", token: parts[0] + "." + parts[1] + ".", err: "failed to verify"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, audiences, err := i.AuthenticateToken(t.Context(), tc.token, []string{"a"})
			if tc.err != "" {
				if err == nil || got != nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("got %v, %v, want %s", got, err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
			if got != nil && !cmp.Equal(audiences, []string{"a"}) {
				t.Errorf("valid for audiences %v", audiences)
			}
		})
	}
	if n := p.count("/.well-known/openid-configuration"); n != 1 {
		t.Errorf("%d requests for the discovery document", n)
	}
}

// TestCEL checks a configuration with CEL expressions.
func TestCEL(t *testing.T) {
	p := newProvider(t)
	i := issuers(t, p, `
apiVersion: apiserver.config.k8s.io/v1
kind: AuthenticationConfiguration
jwt:
- issuer: {url: %s, discoveryURL: "{elsewhere}", audiences: [kapok, other], audienceMatchPolicy: MatchAny, certificateAuthority: %s}
  claimValidationRules:
  - {expression: "claims.hd == 'example.com'", message: wrong domain}
  - {claim: tier, requiredValue: gold}
  claimMappings:
    username: {expression: "'u:' + claims.sub"}
    groups: {expression: "claims.roles"}
    uid: {expression: "claims.oid"}
    extra: [{key: example.com/tenant, valueExpression: claims.hd}]
  userValidationRules:
  - {expression: "!user.username.startsWith('u:system:')", message: reserved}
`)
	good := claims{"hd": "example.com", "tier": "gold", "roles": []string{"a", "b"}, "oid": "42", "jti": nil}
	got, _, err := i.AuthenticateToken(t.Context(), sign(t, "RS256", "one", p.keys["one"], p.claims(good)), nil)
	want := &authn.User{Name: "u:alice", UID: "42", Groups: []string{"a", "b", "system:authenticated"},
		Extra: map[string][]string{"example.com/tenant": {"example.com"}}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	if p.count("/elsewhere") != 1 || p.count("/.well-known/openid-configuration") != 0 {
		t.Error("the discovery URL was not used")
	}
	for text, change := range map[string]claims{
		"wrong domain":         {"hd": "example.org"},
		"value does not match": {"tier": "lead"},
		"reserved":             {"sub": "system:admin"},
		"no such key: oid":     {"oid": nil},
	} {
		c := p.claims(good)
		for name, value := range change {
			if c[name] = value; value == nil {
				delete(c, name)
			}
		}
		if u, _, err := i.AuthenticateToken(t.Context(), sign(t, "RS256", "one", p.keys["one"], c), nil); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("got %v, %v, want %s", u, err, text)
		}
	}
}

// TestRotation checks that a new key is fetched for the first token that is signed with it, and
// that a removed key is rejected afterwards.
func TestRotation(t *testing.T) {
	p := newProvider(t)
	i := issuers(t, p, plain)
	old := p.keys["one"]
	check := func(id string, key crypto.Signer, want bool) {
		t.Helper()
		u, _, err := i.AuthenticateToken(t.Context(), sign(t, "RS256", id, key, p.claims(nil)), nil)
		if (u != nil) != want {
			t.Errorf("key %s: %v, %v", id, u, err)
		}
	}
	check("one", old, true)
	next := newRSA(t)
	p.set(func() { p.keys = map[string]crypto.Signer{"two": next} })
	check("one", old, true) // from the cached keys
	check("two", next, true)
	// The library stores the new keys a moment after it has used them.
	for deadline := time.Now().Add(time.Minute); ; runtime.Gosched() {
		u, _, err := i.AuthenticateToken(t.Context(), sign(t, "RS256", "one", old, p.claims(nil)), nil)
		if u == nil && err != nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("a token of a removed key is accepted as %v", u)
		}
	}
	p.set(func() { p.down = true })
	check("two", next, true)
}

// TestDown checks that requests do not wait for a provider that is down, and that it is used once
// it is up.
func TestDown(t *testing.T) {
	p := newProvider(t)
	p.down = true
	i := issuers(t, p, plain)
	keys := i.current.Load().issuers[0].keys
	token := sign(t, "RS256", "one", p.keys["one"], p.claims(nil))
	for range 3 {
		if u, _, err := i.AuthenticateToken(t.Context(), token, nil); u != nil || err == nil || !strings.Contains(err.Error(), "503 Service Unavailable") {
			t.Fatalf("got %v, %v", u, err)
		}
	}
	if n := p.count("/.well-known/openid-configuration"); n != 1 {
		t.Errorf("%d requests within %v", n, patience)
	}
	p.set(func() { p.down = false })
	keys.turn <- struct{}{}
	if left := time.Until(keys.next); left <= 0 || left > patience {
		t.Errorf("the next attempt is in %v", left)
	}
	keys.next = time.Now() // as if patience had passed
	<-keys.turn
	if u, _, err := i.AuthenticateToken(t.Context(), token, nil); u == nil || err != nil {
		t.Errorf("got %v, %v", u, err)
	}

	p.set(func() { p.name = "https://another.issuer" })
	liar := issuers(t, p, strings.Replace(plain, "%s", p.URL, 1))
	c := p.claims(claims{"iss": p.URL})
	if u, _, err := liar.AuthenticateToken(t.Context(), sign(t, "RS256", "one", p.keys["one"], c), nil); u != nil || err == nil || !strings.Contains(err.Error(), "issuer did not match") {
		t.Errorf("got %v, %v", u, err)
	}
}

func TestReplace(t *testing.T) {
	p := newProvider(t)
	i := issuers(t, p, plain)
	token := sign(t, "RS256", "one", p.keys["one"], p.claims(nil))
	check := func(want string) {
		t.Helper()
		if u, _, err := i.AuthenticateToken(t.Context(), token, nil); err != nil || u.Name != want {
			t.Errorf("got %v, %v, want %s", u, err, want)
		}
	}
	check("oidc:alice")
	other := decode(t, p, strings.Replace(plain, "oidc:", "o:", 1))
	p.set(func() { p.down = true })
	if err := i.Replace(t.Context(), other, nil); err == nil {
		t.Error("Replace has accepted a provider that is down")
	}
	check("oidc:alice")
	p.set(func() { p.down = false })
	if err := i.Replace(t.Context(), other, nil); err != nil {
		t.Fatal(err)
	}
	check("o:alice")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := i.Replace(ended, other, nil); err == nil {
		t.Error("Replace has succeeded with a cancelled context")
	}
	none := decode(t, p, "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n")
	if err := i.Replace(t.Context(), none, nil); err != nil {
		t.Fatal(err)
	}
	if u, _, err := i.AuthenticateToken(t.Context(), token, nil); u != nil || err != nil {
		t.Errorf("a token of a removed issuer is accepted: %v, %v", u, err)
	}
}

func TestAlgorithms(t *testing.T) {
	p := newProvider(t)
	config := decode(t, p, plain)
	i, err := New(config, []string{"ES256"})
	if err != nil {
		t.Fatal(err)
	}
	defer i.Close()
	if u, _, err := i.AuthenticateToken(t.Context(), sign(t, "RS256", "one", p.keys["one"], p.claims(nil)), nil); u != nil || err == nil {
		t.Errorf("got %v, %v", u, err)
	}
	if _, err := New(config, []string{"HS256"}); err == nil || !strings.Contains(err.Error(), `unsupported signing alg: "HS256"`) {
		t.Errorf("got %v", err)
	}
}
