package oidc

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/apis/apiserver"
)

// decode reads a configuration. Its first %s stands for the provider's URL, and the second for its
// certificate.
func decode(t *testing.T, p *provider, config string) *apiserver.AuthenticationConfiguration {
	t.Helper()
	ca, err := json.Marshal(p.authority())
	if err != nil {
		t.Fatal(err)
	}
	for _, value := range []string{p.URL, string(ca)}[2-strings.Count(config, "%s"):] {
		config = strings.Replace(config, "%s", value, 1)
	}
	config = strings.Replace(config, "{elsewhere}", p.URL+"/elsewhere", 1)
	decoded, err := Decode([]byte(config), nil)
	if err != nil {
		t.Fatal(err)
	}
	return decoded
}

func TestDecode(t *testing.T) {
	const head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n"
	jwt := func(issuer, mappings string) string {
		return head + "jwt: [{issuer: {" + issuer + "}, claimMappings: {" + mappings + "}}]\n"
	}
	for _, tc := range []struct{ name, config, err string }{
		{name: "nothing but anonymous", config: head + "anonymous: {enabled: true, conditions: [{path: /livez}]}"},
		{name: "older version", config: strings.Replace(head, "/v1", "/v1beta1", 1)},
		{name: "one issuer", config: jwt("url: 'https://a.example', audiences: [x]", "username: {claim: sub, prefix: ''}")},
		{name: "empty", err: "empty config data"},
		{name: "no kind", config: "jwt: []", err: "Object 'Kind' is missing"},
		{name: "another kind", config: "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\n", err: "expected AuthenticationConfiguration, got *apiserver.EncryptionConfiguration"},
		{name: "unknown field", config: head + "jwts: []", err: `unknown field "jwts"`},
		{name: "no https", config: jwt("url: 'http://a.example', audiences: [x]", "username: {claim: sub, prefix: ''}"),
			err: `jwt[0].issuer.url: Invalid value: "http://a.example": URL scheme must be https`},
		{name: "no audience", config: jwt("url: 'https://a.example'", "username: {claim: sub, prefix: ''}"), err: "jwt[0].issuer.audiences: Required value: at least one jwt[0].issuer.audiences is required"},
		{name: "no name", config: jwt("url: 'https://a.example', audiences: [x]", ""), err: "jwt[0].claimMappings.username: Required value: claim or expression is required"},
		{name: "bad expression", config: jwt("url: 'https://a.example', audiences: [x]", "username: {expression: 'claims.'}"), err: "compilation failed"},
		{name: "email not verified", config: jwt("url: 'https://a.example', audiences: [x]", "username: {expression: 'claims.email'}"), err: "claims.email_verified must be used"},
		{name: "tokens of service accounts", config: jwt("url: 'https://sa.example', audiences: [x]", "username: {claim: sub, prefix: ''}"), err: "URL must not overlap with disallowed issuers"},
		{name: "egress", config: jwt("url: 'https://a.example', audiences: [x], egressSelectorType: cluster", "username: {claim: sub, prefix: ''}"),
			err: "jwt[0].issuer.egressSelectorType: Forbidden: this server has no egress selectors"},
		{name: "twice", config: head + "jwt: [" + strings.Repeat("{issuer: {url: 'https://a.example', audiences: [x]}, claimMappings: {username: {claim: sub, prefix: ''}}}, ", 2) + "]",
			err: `jwt[1].issuer.url: Duplicate value: "https://a.example"`},
		{name: "conditions without anonymous access", config: head + "anonymous: {enabled: false, conditions: [{path: /livez}]}", err: "enabled should be set to true when conditions are defined"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := Decode([]byte(tc.config), []string{"https://sa.example"})
			if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("got %v, want %q", err, tc.err)
			}
		})
	}
}

func TestFlags(t *testing.T) {
	for _, tc := range []struct {
		flags Options
		want  string // claim, prefix, groups claim and prefix
		err   string
	}{
		{flags: Options{IssuerURL: "https://a", ClientID: "c"}, want: `sub "https://a#"  ""`},
		{flags: Options{IssuerURL: "https://a", ClientID: "c", UsernameClaim: "email"}, want: `email ""  ""`},
		{flags: Options{IssuerURL: "https://a", ClientID: "c", UsernamePrefix: "-"}, want: `sub ""  ""`},
		{flags: Options{IssuerURL: "https://a", ClientID: "c", UsernamePrefix: "p:", GroupsClaim: "g", GroupsPrefix: "q:"}, want: `sub "p:" g "q:"`},
		{flags: Options{IssuerURL: "https://a"}, err: "must be specified together"},
		{flags: Options{ClientID: "c"}, err: "must be specified together"},
	} {
		err := tc.flags.Validate()
		if tc.err != "" {
			if err == nil || !strings.Contains(err.Error(), tc.err) {
				t.Errorf("%+v: %v", tc.flags, err)
			}
			continue
		}
		config := tc.flags.Configuration("")
		if err == nil {
			err = Validate(config, nil)
		}
		if err != nil {
			t.Errorf("%+v: %v", tc.flags, err)
			continue
		}
		m := config.JWT[0].ClaimMappings
		prefix := ""
		if m.Groups.Prefix != nil {
			prefix = *m.Groups.Prefix
		}
		if got := fmt.Sprintf("%s %q %s %q", m.Username.Claim, *m.Username.Prefix, m.Groups.Claim, prefix); got != tc.want {
			t.Errorf("%+v: got %s, want %s", tc.flags, got, tc.want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(plain))
	f.Add([]byte("apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\nanonymous: {enabled: true}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		config, err := Decode(data, nil)
		if err != nil {
			return
		}
		i, err := New(config, nil)
		if err != nil {
			t.Fatalf("New rejects a valid configuration: %v", err)
		}
		i.Close()
	})
}
