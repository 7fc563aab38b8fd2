package serviceaccount

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	mathrand "math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok/internal/authn"
	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/journal/memory"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/state"
	"github.com/kapok-dev/kapok/test/seeds"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is an issuer on a state that tests change.
type rig struct {
	testing.TB
	*Issuer
	state *state.State
}

func newRig(t testing.TB, key any, options ...func(*Config)) *rig {
	t.Helper()
	j := memory.New()
	t.Cleanup(func() { j.Close() })
	st, err := state.Open(t.Context(), j, state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	keys, err := NewKeys(key)
	if err != nil {
		t.Fatal(err)
	}
	o := Config{Keys: keys, State: st}
	for _, set := range options {
		set(&o)
	}
	i, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t, i, st}
	r.put("serviceaccounts", "robot", "1", nil)
	return r
}

func (r *rig) key(plural, name string) object.Key {
	k := object.Key{Resource: schema.GroupResource{Resource: plural}, Namespace: "lab", Name: name}
	if plural == "nodes" {
		k.Namespace = ""
	}
	return k
}

func (r *rig) put(plural, name, uid string, more map[string]any) {
	r.Helper()
	key := r.key(plural, name)
	metadata := map[string]any{"name": name, "namespace": key.Namespace, "uid": uid}
	tree := map[string]any{"metadata": metadata}
	for k, v := range more {
		if k == "data" {
			tree[k] = v
		} else {
			metadata[k] = v
		}
	}
	o, err := object.New(key, tree, 0, time.Now())
	if err != nil {
		r.Fatal(err)
	}
	entry := journal.Entry{Key: key, Object: o}
	if prev, _ := r.state.Get(key); prev != nil {
		entry.Prev = prev.Revision
	}
	r.write(entry)
}

func (r *rig) remove(plural, name string) {
	r.Helper()
	prev, _ := r.state.Get(r.key(plural, name))
	r.write(journal.Entry{Key: prev.Key, Prev: prev.Revision})
}

func (r *rig) write(entry journal.Entry) {
	r.Helper()
	if _, err := r.state.Append(r.Context(), journal.Batch{Entries: []journal.Entry{entry}}); err != nil {
		r.Fatal(err)
	}
}

// issue returns a token of the account robot for an hour.
func (r *rig) issue(edit ...func(*Grant)) string {
	r.Helper()
	g := Grant{Namespace: "lab", Account: Ref{"robot", "1"}, Audiences: r.Audiences(), Lifetime: time.Hour}
	for _, e := range edit {
		e(&g)
	}
	token, err := r.Issue(g, time.Now())
	if err != nil {
		r.Fatal(err)
	}
	return token
}

// refused checks that a token is rejected with an error; if text is empty, without an error, as a
// token of an unknown kind.
func (r *rig) refused(token, text string) {
	r.Helper()
	u, audiences, err := r.AuthenticateToken(r.Context(), token, nil)
	if u != nil || audiences != nil {
		r.Fatalf("accepted as %v for %v, want %q", u, audiences, text)
	}
	if text == "" && err != nil || text != "" && (err == nil || err.Error() != text) {
		r.Errorf("got error %v, want %q", err, text)
	}
}

func (r *rig) accepted(token string) *authn.User {
	r.Helper()
	u, _, err := r.AuthenticateToken(r.Context(), token, nil)
	if err != nil || u == nil {
		r.Fatalf("rejected: %v", err)
	}
	return u
}

func newECDSA(t testing.TB, curve elliptic.Curve) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func newRSA(t testing.TB) *rsa.PrivateKey {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func payload(t testing.TB, token string) map[string]any {
	t.Helper()
	data, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	if err != nil {
		t.Fatal(err)
	}
	var claims map[string]any
	if err := json.Unmarshal(data, &claims); err != nil {
		t.Fatal(err)
	}
	return claims
}

func TestUser(t *testing.T) {
	for name, key := range map[string]any{
		"P-256": newECDSA(t, elliptic.P256()), "P-384": newECDSA(t, elliptic.P384()), "P-521": newECDSA(t, elliptic.P521()), "RSA": newRSA(t),
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, key)
			r.put("pods", "p", "2", nil)
			token := r.issue(func(g *Grant) { g.Pod, g.Node = &Ref{"p", "2"}, &Ref{"n", "3"} })
			id := payload(t, token)["jti"].(string)
			want := &authn.User{
				Name:   "system:serviceaccount:lab:robot",
				UID:    "1",
				Groups: []string{"system:serviceaccounts", "system:serviceaccounts:lab", "system:authenticated"},
				Extra: map[string][]string{
					"authentication.kubernetes.io/credential-id": {"JTI=" + id},
					"authentication.kubernetes.io/pod-name":      {"p"}, "authentication.kubernetes.io/pod-uid": {"2"},
					"authentication.kubernetes.io/node-name": {"n"}, "authentication.kubernetes.io/node-uid": {"3"},
				},
			}
			for range 2 { // the second time from the cache
				if got := r.accepted(token); !reflect.DeepEqual(got, want) {
					t.Errorf("got %v, want %v", got, want)
				}
			}
		})
	}
}

// TestEnds checks that a token is invalid as soon as its account, or the object that it is bound
// to, has been deleted.
func TestEnds(t *testing.T) {
	const invalidated = "service account token has been invalidated"
	for _, tc := range []struct {
		plural, name string
		bind         func(*Grant)
		gone, other  string // errors if the object does not exist, or is another one
		ended        string
	}{
		{"serviceaccounts", "robot", func(*Grant) {}, `serviceaccounts "robot" not found`,
			"service account UID (9) does not match claim (1)", "service account lab/robot has been deleted"},
		{"pods", "p", func(g *Grant) { g.Pod = &Ref{"p", "1"} }, invalidated, "pod UID (9) does not match service account pod ref claim (1)", invalidated},
		{"secrets", "s", func(g *Grant) { g.Secret = &Ref{"s", "1"} }, invalidated, "secret UID (9) does not match service account secret ref claim (1)", invalidated},
		{"nodes", "n", func(g *Grant) { g.Node = &Ref{"n", "1"} }, invalidated, "node UID (9) does not match service account node ref claim (1)", invalidated},
	} {
		t.Run(tc.plural, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, newECDSA(t, elliptic.P256()))
				r.put(tc.plural, tc.name, "1", nil)
				token := r.issue(tc.bind)
				r.accepted(token)

				r.put(tc.plural, tc.name, "1", map[string]any{
					"finalizers": []any{"x/y"}, "deletionTimestamp": time.Now().UTC().Format(time.RFC3339), "deletionGracePeriodSeconds": int64(0)})
				time.Sleep(time.Minute)
				r.accepted(token)
				time.Sleep(time.Second)
				r.refused(token, tc.ended)

				r.remove(tc.plural, tc.name)
				r.refused(token, tc.gone)
				r.put(tc.plural, tc.name, "9", nil)
				r.refused(token, tc.other)
				r.put(tc.plural, tc.name, "1", nil)
				r.accepted(token)
			})
		})
	}
}

func TestExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, newECDSA(t, elliptic.P256()))
		early := r.issue()
		time.Sleep(30 * time.Minute)
		late := r.issue()
		time.Sleep(31 * time.Minute)
		r.accepted(early) // a minute longer, for clock skew
		time.Sleep(time.Second)
		r.refused(early, "service account token has expired")
		r.accepted(late)

		ahead, err := r.Issue(Grant{Namespace: "lab", Account: Ref{"robot", "1"}, Audiences: r.Audiences(), Lifetime: time.Hour}, time.Now().Add(2*time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		r.refused(ahead, "service account token is not valid yet")
		time.Sleep(time.Minute)
		r.accepted(ahead)
	})
}

// TestExtended checks that tokens that kubelets request for pods are valid for a year, if they are
// for the API server only.
func TestExtended(t *testing.T) {
	key := newECDSA(t, elliptic.P256())
	projected := func(g *Grant) { g.Pod, g.Lifetime = &Ref{"p", "2"}, 3607*time.Second }
	exact := func(o *Config) { o.ExactExpiration = true }
	for _, tc := range []struct {
		name string
		rig  *rig
		edit []func(*Grant)
		want time.Duration
		warn bool
	}{
		{"projected", newRig(t, key), []func(*Grant){projected}, 365 * 24 * time.Hour, true},
		{"exact", newRig(t, key, exact), []func(*Grant){projected}, 3607 * time.Second, false},
		{"other audience", newRig(t, key), []func(*Grant){projected, func(g *Grant) { g.Audiences = []string{"a"} }}, 3607 * time.Second, false},
		{"other lifetime", newRig(t, key), []func(*Grant){projected, func(g *Grant) { g.Lifetime++ }}, 3607 * time.Second, false},
		{"no pod", newRig(t, key), []func(*Grant){projected, func(g *Grant) { g.Pod = nil }}, 3607 * time.Second, false},
	} {
		claims := payload(t, tc.rig.issue(tc.edit...))
		if got := time.Duration(claims["exp"].(float64)-claims["iat"].(float64)) * time.Second; got != tc.want {
			t.Errorf("%s: valid for %v, want %v", tc.name, got, tc.want)
		}
		after, warn := claims["kubernetes.io"].(map[string]any)["warnafter"].(float64)
		if warn != tc.warn || warn && after-claims["iat"].(float64) != 3607 {
			t.Errorf("%s: warnafter %v, %v", tc.name, after, warn)
		}
	}
}

func TestAudiences(t *testing.T) {
	r := newRig(t, newECDSA(t, elliptic.P256()), func(o *Config) { o.Audiences = []string{"api", "old"} })
	for _, tc := range []struct {
		has, wanted, want []string
		text              string
	}{
		{[]string{"api"}, nil, []string{"api"}, ""},
		{[]string{"x", "old"}, nil, []string{"old"}, ""},
		{[]string{"x"}, nil, nil, `token audiences ["x"] is invalid for the target audiences ["api" "old"]`},
		{[]string{"x", "y"}, []string{"z", "y", "x"}, []string{"y", "x"}, ""},
		{[]string{"api"}, []string{"x"}, nil, `token audiences ["api"] is invalid for the target audiences ["x"]`},
	} {
		token := r.issue(func(g *Grant) { g.Audiences = tc.has })
		_, got, err := r.AuthenticateToken(t.Context(), token, tc.wanted)
		if !slices.Equal(got, tc.want) || (err == nil) != (tc.text == "") || err != nil && err.Error() != tc.text {
			t.Errorf("%v for %v: got %v, %v", tc.has, tc.wanted, got, err)
		}
	}
}

func TestLegacy(t *testing.T) {
	r := newRig(t, newECDSA(t, elliptic.P256()))
	token, err := r.IssueLegacy("lab", Ref{"robot", "1"}, "s")
	if err != nil {
		t.Fatal(err)
	}
	keep := func(token string, labels map[string]any) {
		r.put("secrets", "s", "2", map[string]any{"labels": labels, "data": map[string]any{"token": base64.StdEncoding.EncodeToString([]byte(token))}})
	}
	r.refused(token, "Token has been invalidated")
	keep(token, nil)
	if u := r.accepted(token); u.Name != "system:serviceaccount:lab:robot" || u.UID != "1" || len(u.Extra) > 0 {
		t.Errorf("got %v", u)
	}
	keep(token+"x", nil)
	r.refused(token, "Token does not match server's copy")
	keep("", nil)
	r.refused(token, "Token does not match server's copy")
	keep(token, map[string]any{"kubernetes.io/legacy-token-invalid-since": "2024-01-01"})
	if _, _, err := r.AuthenticateToken(t.Context(), token, nil); err == nil || !strings.Contains(err.Error(), "has been marked invalid") {
		t.Errorf("got %v", err)
	}
	keep(token, nil)
	r.accepted(token)
	if _, _, err := r.AuthenticateToken(t.Context(), token, []string{"x"}); err == nil {
		t.Error("accepted for another audience")
	}
	r.put("serviceaccounts", "robot", "9", nil)
	r.refused(token, "ServiceAccount UID (9) does not match claim (1)")
	r.remove("serviceaccounts", "robot")
	r.refused(token, `serviceaccounts "robot" not found`)
}

// forge signs claims with any key and header.
func forge(t testing.TB, algorithm jose.SignatureAlgorithm, key any, id string, claims any) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: jose.JSONWebKey{Key: key, KeyID: id}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	token, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// TestForged checks that a token cannot be forged without a key, whatever its header.
func TestForged(t *testing.T) {
	const crypto, noKey = "go-jose/go-jose: error in cryptographic primitive", "invalid signature, no keys found"
	for name, key := range map[string]any{"ECDSA": newECDSA(t, elliptic.P256()), "RSA": newRSA(t)} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, key)
			claims := payload(t, r.issue())
			ours := r.opts.Keys.all[0]
			der, err := x509.MarshalPKIXPublicKey(ours.public)
			if err != nil {
				t.Fatal(err)
			}
			public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
			strange, strangeRSA := newECDSA(t, elliptic.P256()), newRSA(t)
			strangeID := func(k any) string { made, _ := newKey(k); return made.id }
			for _, id := range []string{ours.id, ""} {
				r.refused(forge(t, jose.HS256, public, id, claims), crypto)
				r.refused(forge(t, jose.HS256, der, id, claims), crypto)
				r.refused(forge(t, jose.HS512, append(der, der...), id, claims), crypto)
				r.refused(forge(t, jose.ES256, strange, id, claims), crypto)
				r.refused(forge(t, jose.RS256, strangeRSA, id, claims), crypto)
				r.refused(forge(t, jose.PS256, strangeRSA, id, claims), crypto)
			}
			r.refused(forge(t, jose.ES256, strange, strangeID(strange), claims), noKey)
			// With the key in its own header.
			signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: strange}, (&jose.SignerOptions{EmbedJWK: true}))
			if err != nil {
				t.Fatal(err)
			}
			token, err := jwt.Signed(signer).Claims(claims).Serialize()
			if err != nil {
				t.Fatal(err)
			}
			r.refused(token, crypto)
			// Without a signature.
			part := base64.RawURLEncoding.EncodeToString
			body, _ := json.Marshal(claims)
			for _, algorithm := range []string{"none", "None", "NONE", ""} {
				r.refused(part([]byte(`{"alg":"`+algorithm+`"}`))+"."+part(body)+".", crypto)
				r.refused(part([]byte(fmt.Sprintf(`{"alg":%q,"kid":%q}`, algorithm, ours.id)))+"."+part(body)+"."+part([]byte("x")), crypto)
			}
			// With the right key, and another issuer.
			claims["iss"] = "https://elsewhere"
			r.refused(forge(t, ours.algorithm, key, ours.id, claims), "")
			// With the right key, and claims that name no account.
			claims["iss"] = DefaultIssuer
			delete(claims, "kubernetes.io")
			r.refused(forge(t, ours.algorithm, key, ours.id, claims), `serviceaccounts "" not found`)
		})
	}
}

// TestUnfit checks that inconsistent claims are rejected, each time, although the key is right: it
// may sign for other purposes, too.
func TestUnfit(t *testing.T) {
	key := newECDSA(t, elliptic.P256())
	r := newRig(t, key)
	legacy, err := r.IssueLegacy("lab", Ref{"robot", "1"}, "s")
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, of string
		edit     func(claims map[string]any)
		want     string
	}{
		{"webhook", r.issue(), func(c map[string]any) {
			c["kubernetes.io"].(map[string]any)["validatingwebhookconfiguration"] = map[string]any{"name": "a", "uid": "b"}
		}, "tokens that are bound to webhooks are not accepted"},
		{"legacy of another", legacy, func(c map[string]any) { c["sub"] = "system:serviceaccount:kube-system:root" }, "sub claim is invalid"},
		{"legacy without an account", legacy, func(c map[string]any) { delete(c, "sub") }, "sub claim is missing"},
		{"legacy without a secret", legacy, func(c map[string]any) { delete(c, "kubernetes.io/serviceaccount/secret.name") }, "secretName claim is missing"},
		{"legacy without an account", legacy, func(c map[string]any) { delete(c, "kubernetes.io/serviceaccount/service-account.name") }, "serviceAccountName claim is missing"},
		{"new one that says it is old", r.issue(), func(c map[string]any) { c["iss"] = legacyIssuer }, "namespace claim is missing"},
		{"old one that says it is new", legacy, func(c map[string]any) { c["iss"] = DefaultIssuer }, `serviceaccounts "" not found`},
		{"uid of another", r.issue(), func(c map[string]any) {
			c["kubernetes.io"].(map[string]any)["serviceaccount"].(map[string]any)["uid"] = "2"
		}, "service account UID (1) does not match claim (2)"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			claims := payload(t, tc.of)
			tc.edit(claims)
			token := forge(t, jose.ES256, key, "", claims)
			secret := map[string]any{"data": map[string]any{"token": base64.StdEncoding.EncodeToString([]byte(token))}}
			r.put("secrets", "s", "3", secret)
			(&rig{t, r.Issuer, r.state}).refused(token, tc.want)
			(&rig{t, r.Issuer, r.state}).refused(token, tc.want) // nor is it cached
		})
	}
}

// TestOtherKeys checks that tokens of another known key are valid, with its own ID and algorithm
// only.
func TestOtherKeys(t *testing.T) {
	old, current := newRSA(t), newECDSA(t, elliptic.P384())
	keys, err := NewKeys(current, &old.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, current, func(o *Config) { o.Keys = keys })
	claims := payload(t, r.issue())
	r.accepted(forge(t, jose.RS256, old, keys.all[1].id, claims))
	r.accepted(forge(t, jose.RS256, old, "", claims))
	r.refused(forge(t, jose.RS256, old, keys.all[0].id, claims), "go-jose/go-jose: error in cryptographic primitive")
	r.refused(forge(t, jose.PS256, old, keys.all[1].id, claims), "go-jose/go-jose: error in cryptographic primitive")
	r.refused(forge(t, jose.RS512, old, keys.all[1].id, claims), "go-jose/go-jose: error in cryptographic primitive")
}

// TestCorrupted checks that a token with any change is invalid.
func TestCorrupted(t *testing.T) {
	seed := seeds.Of(t)
	random := mathrand.New(mathrand.NewPCG(seed, 0))
	r := newRig(t, newECDSA(t, elliptic.P256()))
	token := r.issue()
	r.accepted(token)
	const letters = "ABCXYZabcxyz0189-_.=+/ \n\r{}\x00"
	for range 3000 {
		b := []byte(token)
		at, letter := random.IntN(len(b)), letters[random.IntN(len(letters))]
		switch random.IntN(4) {
		case 0:
			b[at] = letter
		case 1:
			b = slices.Insert(b, at, letter)
		case 2:
			b = slices.Delete(b, at, at+1)
		case 3:
			b[at] ^= 1 << random.IntN(7)
		}
		if string(b) == token {
			continue
		}
		if u, _, _ := r.AuthenticateToken(t.Context(), string(b), nil); u != nil {
			t.Fatalf("accepted %q\nmade of  %q", b, token)
		}
	}
	last := len(token) - 1 // its last letter has four unused bits
	for _, letter := range "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_" {
		if other := token[:last] + string(letter); other != token {
			if u, _, _ := r.AuthenticateToken(t.Context(), other, nil); u != nil {
				t.Errorf("accepted with the last letter %c in place of %c", letter, token[last])
			}
		}
	}
	for _, other := range []string{token + "\n", "\n" + token, token + "=", " " + token, token + ".", strings.Replace(token, ".", ".\n", 1)} {
		if u, _, _ := r.AuthenticateToken(t.Context(), other, nil); u != nil {
			t.Errorf("accepted %q", other)
		}
	}
}

// TestKnownIsBounded checks that the cache is bounded, and drops its oldest tokens.
func TestKnownIsBounded(t *testing.T) {
	var k known
	for n := range 3 * knownSize {
		k.put([32]byte{byte(n), byte(n >> 8), byte(n >> 16)}, &bearer{})
	}
	if n := len(k.newer) + len(k.older); n > 2*knownSize {
		t.Errorf("%d tokens are cached", n)
	}
	if k.get([32]byte{}) != nil {
		t.Error("the first token is cached")
	}
}

func FuzzToken(f *testing.F) {
	r := newRig(f, newECDSA(f, elliptic.P256()))
	token := r.issue()
	f.Add(token)
	f.Add("a.b.c")
	f.Add("eyJhbGciOiJub25lIn0.eyJpc3MiOiJodHRwczovL2t1YmVybmV0ZXMuZGVmYXVsdC5zdmMifQ.")
	f.Add("eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJodHRwczovL2t1YmVybmV0ZXMuZGVmYXVsdC5zdmMifQ.YWFh")
	f.Add("eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJrdWJlcm5ldGVzL3NlcnZpY2VhY2NvdW50In0.YWFh")
	f.Fuzz(func(t *testing.T, other string) {
		u, audiences, err := r.AuthenticateToken(t.Context(), other, nil)
		if u != nil && other != token {
			t.Fatalf("%q was accepted as %v for %v, %v", other, u, audiences, err)
		}
	})
}

func BenchmarkKnownToken(b *testing.B) {
	r := newRig(b, newECDSA(b, elliptic.P256()))
	r.put("pods", "p", "2", nil)
	token := r.issue(func(g *Grant) { g.Pod = &Ref{"p", "2"} })
	b.ReportAllocs()
	for b.Loop() {
		r.accepted(token)
	}
}

func BenchmarkNewToken(b *testing.B) {
	r := newRig(b, newECDSA(b, elliptic.P256()))
	token := r.issue()
	for b.Loop() {
		if _, err := r.verify(token); err != nil {
			b.Fatal(err)
		}
	}
}
