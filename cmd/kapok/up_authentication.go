package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/kapok-dev/kapok"

	"github.com/spf13/cobra"
)

// authenticationFlags are those that say who is known besides the admin, and how the server says who it is. Their names
// are kube-apiserver's.
func authenticationFlags(c *cobra.Command, o *kapok.AuthenticationOptions) {
	f := c.Flags()
	f.StringVar(&o.ClientCAFile, "client-ca-file", "", "file with authorities of client certificates, besides the server's own")
	f.StringVar(&o.TokenFile, "token-auth-file", "", `file with tokens in CSV: token,user,uid,"group1,group2"`)
	f.StringVar(&o.ConfigFile, "authentication-config", "", "file with an AuthenticationConfiguration: issuers of tokens, and what is anonymous")
	f.Var((*negated)(&o.RefuseAnonymous), "anonymous-auth", "let requests in that do not say who sends them, as system:anonymous, who may little")
	f.Lookup("anonymous-auth").NoOptDefVal = "true"

	f.StringVar(&o.OIDC.IssuerURL, "oidc-issuer-url", "", "URL of an OpenID Connect provider, https://...")
	f.StringVar(&o.OIDC.ClientID, "oidc-client-id", "", "audience of the provider's tokens")
	f.StringVar(&o.OIDC.CAFile, "oidc-ca-file", "", "file with the authorities of the provider's certificate (default those of the system)")
	f.StringVar(&o.OIDC.UsernameClaim, "oidc-username-claim", "", `claim with the user's name (default "sub")`)
	f.StringVar(&o.OIDC.UsernamePrefix, "oidc-username-prefix", "", "what is put before names; - for nothing (default the provider's URL and #, nothing before an email)")
	f.StringVar(&o.OIDC.GroupsClaim, "oidc-groups-claim", "", "claim with the user's groups")
	f.StringVar(&o.OIDC.GroupsPrefix, "oidc-groups-prefix", "", "what is put before groups")
	f.StringSliceVar(&o.OIDC.SigningAlgs, "oidc-signing-algs", nil, "algorithms that tokens may be signed with (default RS256)")
	f.Var((*pairs)(&o.OIDC.RequiredClaims), "oidc-required-claim", "claim that tokens must have with that value, KEY=VALUE; may be repeated")

	f.StringVar(&o.Webhook.ConfigFile, "authentication-token-webhook-config-file", "", "file in the form of a kubeconfig that says whom to ask about tokens")
	f.StringVar(&o.Webhook.Version, "authentication-token-webhook-version", "v1beta1", "version of the TokenReviews that are sent: v1 or v1beta1")
	f.DurationVar(&o.Webhook.CacheTTL, "authentication-token-webhook-cache-ttl", 2*time.Minute, "how long answers are kept; negative for not at all")

	f.StringVar(&o.Serving.CertFile, "tls-cert-file", "", "file with the certificate to serve with (default one of the server's own authority)")
	f.StringVar(&o.Serving.KeyFile, "tls-private-key-file", "", "file with the key of that certificate")
	f.StringVar(&o.Serving.MinVersion, "tls-min-version", "VersionTLS12", "VersionTLS12 or VersionTLS13")
	f.StringSliceVar(&o.Serving.CipherSuites, "tls-cipher-suites", nil, "names of the cipher suites that are used up to TLS 1.2 (default those of Go)")
}

// negated is a flag for an option that says the contrary.
type negated bool

func (n *negated) Type() string   { return "bool" }
func (n *negated) String() string { return fmt.Sprint(!bool(*n)) }

func (n *negated) Set(text string) error {
	switch strings.ToLower(text) {
	case "true", "t", "1":
		*n = false
	case "false", "f", "0":
		*n = true
	default:
		return fmt.Errorf("want true or false, not %q", text)
	}
	return nil
}

// pairs are KEY=VALUE, of which the value may hold anything.
type pairs map[string]string

func (p *pairs) Type() string { return "mapStringString" }

func (p *pairs) String() string {
	var all []string
	for key, value := range *p {
		all = append(all, key+"="+value)
	}
	return strings.Join(all, ",")
}

func (p *pairs) Set(text string) error {
	key, value, ok := strings.Cut(text, "=")
	if !ok || key == "" {
		return fmt.Errorf("malformed pair, expect string=string, not %q", text)
	}
	if *p == nil {
		*p = pairs{}
	}
	(*p)[key] = value
	return nil
}
