package main

import (
	"github.com/kapok-dev/kapok"

	"github.com/spf13/cobra"
)

// accountFlags adds the flags for service accounts and their tokens, with the names of
// kube-apiserver.
func accountFlags(c *cobra.Command, o *kapok.AccountOptions) {
	f := c.Flags()
	f.Var((*negated)(&o.None), "service-accounts", "create the service account default and the ConfigMap kube-root-ca.crt in each namespace, write tokens into secrets, and set the service account of pods")
	f.Lookup("service-accounts").NoOptDefVal = "true"
	f.StringVar(&o.SigningKeyFile, "service-account-signing-key-file", "", "file with the private key that signs service account tokens (default: a key in the data directory)")
	f.StringArrayVar(&o.KeyFiles, "service-account-key-file", nil, "file with additional keys that verify service account tokens; may be repeated")
	f.StringArrayVar(&o.Issuers, "service-account-issuer", nil, "issuer of service account tokens (default https://kubernetes.default.svc); may be repeated, the first one is used in new tokens")
	f.StringVar(&o.JWKSURI, "service-account-jwks-uri", "", "URL of the keys that verify service account tokens (default: /openid/v1/jwks of this server)")
	f.DurationVar(&o.MaxTokenExpiration, "service-account-max-token-expiration", 0, "longest lifetime of service account tokens, at least 1h (default: no limit)")
	f.Var((*negated)(&o.ExactExpiration), "service-account-extend-token-expiration", "extend the lifetime of tokens that are injected into pods to a year")
	f.Lookup("service-account-extend-token-expiration").NoOptDefVal = "true"
	f.StringSliceVar(&o.Audiences, "api-audiences", nil, "audiences of tokens that this server accepts (default: the issuers)")
}
