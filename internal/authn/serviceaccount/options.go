package serviceaccount

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"
)

// Options configure service accounts and their tokens. They have the names of kube-apiserver's
// flags --service-account-*.
type Options struct {
	// SigningKeyFile is a file in PEM with the private key, RSA or ECDSA, that signs tokens.
	// Default: a key that is kept in Options.DataDir, shared by all servers of an Options.Store, or
	// lost with the process.
	SigningKeyFile string
	// KeyFiles are files in PEM with additional keys, public or private, that verify tokens.
	KeyFiles []string
	// Issuers are the issuers whose tokens are valid; the first one is used in new tokens. Default:
	// https://kubernetes.default.svc.
	Issuers []string
	// Audiences are the audiences of the API server in tokens. Tokens that are requested without
	// audiences get these, and tokens for none of these are rejected. Default: Issuers.
	Audiences []string
	// JWKSURI is the https URL of the keys that verify tokens, in the discovery document. Default:
	// at this server's address.
	JWKSURI string
	// MaxTokenExpiration is the longest lifetime of new tokens, from an hour to 2^32 seconds.
	// Default: as requested, at most 2^32 seconds.
	MaxTokenExpiration time.Duration
	// ExactExpiration ends the tokens that are injected into pods after the requested hour.
	// Default: they are valid for a year, as in Kubernetes.
	ExactExpiration bool

	// None turns off the parts of housekeeping for accounts, which create the service account
	// default and the config map kube-root-ca.crt in each namespace, and write tokens into secrets.
	// Pods are then accepted without accounts, too. Tokens are still issued. Options.KeepGarbage
	// implies None.
	None bool
}

// Validate returns an error if MaxTokenExpiration is out of range, JWKSURI is not an https URL, or
// an issuer is empty. It does not read files.
func (o *Options) Validate() error {
	if o.MaxTokenExpiration != 0 && (o.MaxTokenExpiration < time.Hour || o.MaxTokenExpiration > 1<<32*time.Second) {
		return fmt.Errorf("Options.Accounts.MaxTokenExpiration is %v: want 1 hour to 2^32 seconds", o.MaxTokenExpiration)
	}
	if slices.Contains(o.Issuers, "") {
		return errors.New("Options.Accounts.Issuers has an empty entry: remove it")
	}
	if o.JWKSURI == "" {
		return nil
	}
	if u, err := url.Parse(o.JWKSURI); err != nil || u.Scheme != "https" {
		return fmt.Errorf("Options.Accounts.JWKSURI is %q: want an https URL", o.JWKSURI)
	}
	return nil
}
