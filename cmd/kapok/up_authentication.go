package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/kapok-dev/kapok"

	"github.com/spf13/pflag"
)

// authenticationFlags adds the flags for the authentication of users. Their names are
// kube-apiserver's.
func authenticationFlags(f *pflag.FlagSet, o *kapok.AuthenticationOptions) {
	f.StringVar(&o.ClientCAFile, "client-ca-file", "", "file with CAs of client certificates, in addition to the server's own")
	f.StringVar(&o.TokenFile, "token-auth-file", "", `file with tokens in CSV: token,user,uid,"group1,group2"`)
	f.StringVar(&o.ConfigFile, "authentication-config", "", "file with an AuthenticationConfiguration: token issuers and anonymous access")
	f.BoolVar(&o.BootstrapTokens, "enable-bootstrap-token-auth", false, "accept the tokens in Secrets of type bootstrap.kubernetes.io/token in kube-system, with which nodes join")
	f.Var((*negated)(&o.RefuseAnonymous), "anonymous-auth", "accept requests without credentials as user system:anonymous")
	f.Lookup("anonymous-auth").NoOptDefVal = "true"

	f.StringVar(&o.OIDC.IssuerURL, "oidc-issuer-url", "", "URL of an OpenID Connect provider, https://...")
	f.StringVar(&o.OIDC.ClientID, "oidc-client-id", "", "audience of the provider's tokens")
	f.StringVar(&o.OIDC.CAFile, "oidc-ca-file", "", "file with the CAs of the provider's certificate (default those of the system)")
	f.StringVar(&o.OIDC.UsernameClaim, "oidc-username-claim", "", `claim with the user's name (default "sub")`)
	f.StringVar(&o.OIDC.UsernamePrefix, "oidc-username-prefix", "", "prefix of user names; - for none (default: the provider's URL followed by #; no prefix if the claim is email)")
	f.StringVar(&o.OIDC.GroupsClaim, "oidc-groups-claim", "", "claim with the user's groups")
	f.StringVar(&o.OIDC.GroupsPrefix, "oidc-groups-prefix", "", "prefix of groups")
	f.StringSliceVar(&o.OIDC.SigningAlgs, "oidc-signing-algs", nil, "algorithms that tokens may be signed with (default RS256)")
	f.Var((*pairs)(&o.OIDC.RequiredClaims), "oidc-required-claim", "claim and value that tokens must have, KEY=VALUE; may be repeated")

	f.StringVar(&o.Webhook.ConfigFile, "authentication-token-webhook-config-file", "", "kubeconfig with the address of the webhook that authenticates tokens")
	f.StringVar(&o.Webhook.Version, "authentication-token-webhook-version", "v1beta1", "version of the TokenReviews that are sent: v1 or v1beta1")
	f.DurationVar(&o.Webhook.CacheTTL, "authentication-token-webhook-cache-ttl", 2*time.Minute, "time for which results are cached; negative disables the cache")
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
		return fmt.Errorf("want KEY=VALUE, not %q", text)
	}
	if *p == nil {
		*p = pairs{}
	}
	(*p)[key] = value
	return nil
}
