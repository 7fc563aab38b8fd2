package main

import (
	"strconv"

	"github.com/kapok-dev/kapok"

	"github.com/spf13/cobra"
)

// accountFlags adds what is said of service accounts and their tokens, as kube-apiserver calls it.
func accountFlags(c *cobra.Command, o *kapok.AccountOptions) {
	f := c.Flags()
	f.BoolFunc("service-accounts", "make the account default and the config map kube-root-ca.crt in each namespace, fill secrets with tokens, and give pods an account (default true)", func(s string) error {
		keep, err := strconv.ParseBool(s)
		o.None = !keep
		return err
	})
	f.StringVar(&o.SigningKeyFile, "service-account-signing-key-file", "", "file with the private key that signs tokens of service accounts (default: a key in the data directory)")
	f.StringArrayVar(&o.KeyFiles, "service-account-key-file", nil, "file with keys that such tokens may have been signed with, besides that one; may be given again")
	f.StringArrayVar(&o.Issuers, "service-account-issuer", nil, "issuer of such tokens (default https://kubernetes.default.svc); may be given again, and the first signs")
	f.StringVar(&o.JWKSURI, "service-account-jwks-uri", "", "where those who check such tokens find the keys (default: at this server)")
	f.DurationVar(&o.MaxTokenExpiration, "service-account-max-token-expiration", 0, "the longest that such tokens hold, from 1h (default: as long as is asked for)")
	f.BoolFunc("service-account-extend-token-expiration", "have the tokens that pods get without asking hold for a year (default true)", func(s string) error {
		extend, err := strconv.ParseBool(s)
		o.ExactExpiration = !extend
		return err
	})
	f.StringSliceVar(&o.Audiences, "api-audiences", nil, "names of this server in tokens (default: the issuers)")
}
