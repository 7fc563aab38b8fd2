package server

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/internal/authn/methods"
	"github.com/kapok-dev/kapok/internal/authn/oidc"
)

// provider is an OpenID Connect provider. The tests of internal/authn/oidc cover faulty providers.
type provider struct {
	*httptest.Server
	key *ecdsa.PrivateKey
	ca  string
}

func newProvider(t *testing.T) *provider {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p := &provider{key: key}
	point, err := key.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	text := base64.RawURLEncoding.EncodeToString
	p.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/.well-known/openid-configuration":
			fmt.Fprintf(w, `{"issuer": %q, "jwks_uri": %q}`, p.URL, p.URL+"/keys")
		case "/keys":
			fmt.Fprintf(w, `{"keys": [{"kty": "EC", "crv": "P-256", "kid": "k", "x": %q, "y": %q}]}`, text(point[1:33]), text(point[33:]))
		}
	}))
	t.Cleanup(p.Close)
	p.ca = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.Certificate().Raw}))
	return p
}

// token returns a signed token of a user.
func (p *provider) token(t *testing.T, user string) string {
	t.Helper()
	claims, err := json.Marshal(map[string]any{"iss": p.URL, "aud": "kapok", "sub": user, "exp": time.Now().Add(time.Hour).Unix()})
	if err != nil {
		t.Fatal(err)
	}
	text := base64.RawURLEncoding.EncodeToString
	signed := text([]byte(`{"alg":"ES256","kid":"k"}`)) + "." + text(claims)
	sum := sha256.Sum256([]byte(signed))
	r, s, err := ecdsa.Sign(rand.Reader, p.key, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	return signed + "." + text(append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...))
}

// TestOIDCFlags authenticates with a provider that is configured by flags.
func TestOIDCFlags(t *testing.T) {
	leakFree(t)
	p := newProvider(t)
	s := start(t, Options{Authentication: methods.Options{OIDC: oidc.Options{
		IssuerURL: p.URL, ClientID: "kapok", CAFile: write(t, filepath.Join(t.TempDir(), "ca"), p.ca), SigningAlgs: []string{"ES256"},
	}}})
	if got, want := who(t, s, p.token(t, "alice")), p.URL+"#alice"; got != want {
		t.Errorf("the token authenticates %q, want %q", got, want)
	}
}

// TestAuthenticationConfig checks that a valid change of the file takes effect while the server
// runs, and that an invalid one is ignored.
func TestAuthenticationConfig(t *testing.T) {
	leakFree(t)
	p := newProvider(t)
	ca, err := json.Marshal(p.ca)
	if err != nil {
		t.Fatal(err)
	}
	config := func(prefix, more string) string {
		return fmt.Sprintf(`
apiVersion: apiserver.config.k8s.io/v1
kind: AuthenticationConfiguration
%s
jwt:
- issuer: {url: %q, audiences: [kapok], certificateAuthority: %s}
  claimMappings: {username: {claim: sub, prefix: %q}}
`, more, p.URL, ca, prefix)
	}
	file := write(t, filepath.Join(t.TempDir(), "config"), config("a:", ""))
	s := start(t, Options{Authentication: methods.Options{ConfigFile: file}})
	stopFollowing(s)
	if got := who(t, s, p.token(t, "alice")); got != "a:alice" {
		t.Errorf("the token authenticates %q", got)
	}
	for _, step := range []struct{ content, want string }{
		{config("b:", ""), "b:alice"},
		{"garbage", "b:alice"},
		{strings.Replace(config("c:", ""), p.URL, "https://127.0.0.1:1", 1), "b:alice"}, // no provider listens there
		{config("d:", "anonymous: {enabled: true}"), "b:alice"},                         // cannot change
		{config("e:", ""), "e:alice"},
	} {
		write(t, file, step.content)
		reloadFiles(s)
		// Each signature differs, so this is another token: results for earlier tokens are cached
		// for a while.
		token := p.token(t, "alice")
		if got := who(t, s, token); got != step.want {
			t.Errorf("with %s the token authenticates %q, want %q", step.content, got, step.want)
		}
	}
}
