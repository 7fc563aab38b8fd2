package console

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// issuer is an OpenID Connect provider with one user, and the transport to it.
type issuer struct {
	down      bool
	token     string     // for the code; "" stands for one with the nonce of the request
	asked     url.Values // the last request for a code
	exchanged url.Values // the last request for a token
}

const issuerURL = "https://login.example.com"

// RoundTrip implements http.RoundTripper.
func (i *issuer) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", "application/json")
	switch {
	case i.down:
		http.Error(w, "out of order", http.StatusServiceUnavailable)
	case r.URL.Path == "/.well-known/openid-configuration":
		fmt.Fprintf(w, `{"issuer": %q, "authorization_endpoint": %q, "token_endpoint": %q, "jwks_uri": "x", "scopes_supported": ["openid", "email", "wallet"]}`,
			issuerURL, issuerURL+"/authorize", issuerURL+"/token")
	case r.URL.Path == "/token":
		if err := r.ParseForm(); err != nil {
			return nil, err
		}
		i.exchanged = r.PostForm
		sum := sha256.Sum256([]byte(i.exchanged.Get("code_verifier")))
		if i.exchanged.Get("code") != "C" || base64.RawURLEncoding.EncodeToString(sum[:]) != i.asked.Get("code_challenge") {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"error": "invalid_grant"}`)
			break
		}
		token := i.token
		if token == "" {
			token = idToken(i.asked.Get("nonce"))
		}
		json.NewEncoder(w).Encode(map[string]string{"access_token": "A", "token_type": "Bearer", "id_token": token})
	default:
		http.NotFound(w, r)
	}
	return w.Result(), nil
}

// idToken returns a token that onlyIDTokens accepts.
func idToken(nonce string) string {
	claims, _ := json.Marshal(map[string]string{"nonce": nonce})
	return "e30." + base64.RawURLEncoding.EncodeToString(claims) + ".signed"
}

// onlyIDTokens is an API that accepts what idToken returns.
func onlyIDTokens(w http.ResponseWriter, r *http.Request) {
	if a := r.Header.Get("Authorization"); a != "" && !strings.HasSuffix(a, ".signed") {
		http.Error(w, "unauthorized", http.StatusUnauthorized)
		return
	}
	fmt.Fprint(w, r.Header.Get("Authorization"))
}

// read returns the body of a response.
func read(t *testing.T, resp *http.Response) string {
	t.Helper()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// visitor is a browser that logs in by a provider.
type visitor struct {
	*browser
	issuer *issuer
	jar    map[string]*http.Cookie
}

func newVisitor(t *testing.T) *visitor {
	v := &visitor{issuer: &issuer{}, jar: map[string]*http.Cookie{}}
	p := &Provider{Issuer: issuerURL, ClientID: "kapok", Transport: v.issuer}
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	v.browser = &browser{t: t, console: New(Options{API: http.HandlerFunc(onlyIDTokens), Provider: p})}
	return v
}

// open follows a link to the console, from any site.
func (v *visitor) open(path string) *http.Response {
	v.t.Helper()
	resp := v.send("GET", path, "", func(r *http.Request) {
		r.Header = http.Header{"Sec-Fetch-Site": {"cross-site"}}
		for _, c := range v.jar {
			r.AddCookie(c)
		}
	})
	for _, c := range resp.Cookies() {
		if c.MaxAge < 0 {
			delete(v.jar, c.Name)
		} else {
			v.jar[c.Name] = c
		}
	}
	return resp
}

// begin opens the login, and returns the address of the callback with the code of the provider.
func (v *visitor) begin(to string) string {
	v.t.Helper()
	resp := v.open("/console/login?to=" + url.QueryEscape(to))
	address, err := resp.Location()
	if err != nil {
		v.t.Fatalf("%d: %v", resp.StatusCode, err)
	}
	v.issuer.asked = address.Query()
	return "/console/callback?code=C&state=" + v.issuer.asked.Get("state")
}

func TestLoginByProvider(t *testing.T) {
	v := newVisitor(t)
	if got := read(t, v.send("GET", "/console/session", "")); got != `{"provider":"https://login.example.com"}`+"\n" {
		t.Errorf("ways to log in: %s", got)
	}
	callback := v.begin("/console/core/v1/pods?ns=shop")
	for key, want := range map[string]string{
		"client_id": "kapok", "response_type": "code", "scope": "openid email", "code_challenge_method": "S256",
		"redirect_uri": "https://" + own + "/console/callback",
	} {
		if got := v.issuer.asked.Get(key); got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	resp := v.open(callback)
	to := resp.Header.Get("Location")
	page, token, ok := strings.Cut(to, "&token=")
	if resp.StatusCode != http.StatusSeeOther || !ok || page != "/console/core/v1/pods?ns=shop" {
		t.Fatalf("%d %s", resp.StatusCode, to)
	}
	if got := v.issuer.exchanged; got.Get("client_id") != "kapok" || got.Has("client_secret") || got.Get("redirect_uri") != v.issuer.asked.Get("redirect_uri") {
		t.Errorf("the request for a token is %v", got)
	}
	if code := v.redeem("?token=" + token); code != http.StatusCreated {
		t.Fatalf("the session: %d", code)
	}
	if got, want := read(t, v.send("GET", "/api", "")), "Bearer "+idToken(v.issuer.asked.Get("nonce")); got != want {
		t.Errorf("requests have %q, want %q", got, want)
	}
	if resp := v.open(callback); resp.StatusCode != http.StatusBadRequest {
		t.Errorf("the callback again: %d", resp.StatusCode)
	}
}

func TestLoginByProviderFails(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(v *visitor, callback string) string // returns the callback
		code   int
		want   string
	}{
		{"another browser", func(v *visitor, callback string) string { clear(v.jar); return callback }, 400, "it was not begun in this browser"},
		{"another state", func(v *visitor, callback string) string { return callback + "X" }, 400, "it was not begun in this browser"},
		{"a cookie of another process", func(v *visitor, callback string) string {
			v.console = newVisitor(v.t).console
			return callback
		}, 400, "it was not begun in this browser"},
		{"too late", func(v *visitor, callback string) string { time.Sleep(linkLife); return callback }, 400, "too long ago"},
		{"refused", func(v *visitor, callback string) string {
			return strings.Replace(callback, "code=C", "error=access_denied&error_description=<b>no</b>", 1)
		}, 403, "the provider has refused it: access_denied <b>no</b>"},
		{"another code", func(v *visitor, callback string) string { return strings.Replace(callback, "code=C", "code=D", 1) }, 502, "invalid_grant"},
		{"without a token", func(v *visitor, callback string) string { v.issuer.token = "none"; return callback }, 403, "no ID token"},
		{"the token of another login", func(v *visitor, callback string) string { v.issuer.token = idToken("other"); return callback }, 403, "no ID token"},
		{"a token that is not accepted", func(v *visitor, callback string) string {
			v.issuer.token = strings.TrimSuffix(idToken(v.issuer.asked.Get("nonce")), "signed") + "forged"
			return callback
		}, 403, "the server does not accept"},
		{"the provider is down", func(v *visitor, callback string) string { v.issuer.down = true; return callback }, 502, "get a token"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v := newVisitor(t)
				resp := v.open(tt.change(v, v.begin("/console")))
				if got := read(t, resp); resp.StatusCode != tt.code || !strings.Contains(got, tt.want) || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/plain") {
					t.Errorf("%d %s, want %d %s", resp.StatusCode, got, tt.code, tt.want)
				}
				if n := len(v.console.sessions.links); n > 0 {
					t.Errorf("there are %d links", n)
				}
			})
		})
	}
}

func TestLoginBegins(t *testing.T) {
	v := newVisitor(t)
	v.issuer.down = true
	if resp := v.open("/console/login"); resp.StatusCode != http.StatusBadGateway {
		t.Errorf("without the provider: %d", resp.StatusCode)
	}
	v.issuer.down = false
	if resp := v.send("POST", "/console/login", ""); resp.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", resp.StatusCode)
	}
	for range maxProvider {
		v.console.logins.places <- struct{}{}
	}
	if resp := v.open("/console/login"); resp.StatusCode != http.StatusTooManyRequests {
		t.Errorf("beside %d others: %d", maxProvider, resp.StatusCode)
	}
	if resp := New(Options{API: http.HandlerFunc(onlyIDTokens)}); resp.logins != nil {
		t.Error("there are logins without a provider")
	}
}

func TestOwnPage(t *testing.T) {
	for to, want := range map[string]string{
		"/console/a?b=c":                   "/console/a?b=c",
		"/console":                         "/console",
		"":                                 "/console",
		"/api":                             "/console",
		"//evil.example.com/console":       "/console",
		"https://evil.example.com/console": "/console",
		"/console/%2e%2e/api":              "/console",
		"/consoles":                        "/console",
		"/console/" + strings.Repeat("x", longestPage): "/console",
	} {
		if got := ownPage(to); got != want {
			t.Errorf("%q becomes %q, want %q", to, got, want)
		}
	}
}

func TestProviderIsValid(t *testing.T) {
	for _, p := range []Provider{{}, {Issuer: issuerURL}, {ClientID: "kapok"}, {Issuer: "http://login.example.com", ClientID: "kapok"}, {Issuer: "https://", ClientID: "kapok"}} {
		if p.Validate() == nil {
			t.Errorf("%+v is valid", p)
		}
	}
}
