package kapok

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/kapok-dev/kapok/internal/auth/pki"
	"github.com/kapok-dev/kapok/internal/auth/serviceaccount"
	"github.com/kapok-dev/kapok/internal/endpoint"
)

// AccountOptions are about service accounts and their tokens. The names are those
// of kube-apiserver's flags.
type AccountOptions struct {
	// SigningKeyFile is a file in PEM with the private key, RSA or ECDSA, that signs
	// tokens. Default: a key that is kept in DataDir, or shared by all servers of a
	// Store, or that ends with the process.
	SigningKeyFile string
	// KeyFiles are files in PEM with further keys, public or private, that tokens may
	// have been signed with.
	KeyFiles []string
	// Issuers are whose tokens hold; the first signs. Default: https://kubernetes.default.svc.
	Issuers []string
	// Audiences are the names of the API server in tokens. Default: Issuers.
	Audiences []string
	// JWKSURI is where those who check tokens find the keys; https. Default: at this
	// server's address.
	JWKSURI string
	// MaxTokenExpiration bounds how long tokens hold; at least an hour. Default: as
	// long as is asked for, which may be 2^32 seconds.
	MaxTokenExpiration time.Duration
	// ExactExpiration ends the tokens of pods when they say so. Default: those that
	// pods get without asking hold for a year, as in Kubernetes.
	ExactExpiration bool

	// None leaves to others what a controller does for accounts: to make the account
	// default of each namespace and the config map kube-root-ca.crt, and to fill
	// secrets with tokens. Then pods are taken without accounts, too. Tokens are issued
	// nevertheless. KeepGarbage implies it.
	None bool
}

// keepsAccounts says whether there is an account default in each namespace, and so
// whether pods must have one.
func (p *parts) keepsAccounts() bool { return !p.options.KeepGarbage && !p.options.Accounts.None }

// complete refuses what cannot be.
func (o *AccountOptions) complete() error {
	if o.MaxTokenExpiration != 0 && (o.MaxTokenExpiration < time.Hour || o.MaxTokenExpiration > 1<<32*time.Second) {
		return errors.New("the longest expiration of service account tokens must be from 1 hour to 2^32 seconds")
	}
	if o.JWKSURI == "" {
		return nil
	}
	if u, err := url.Parse(o.JWKSURI); err != nil || u.Scheme != "https" {
		return fmt.Errorf("URI of the keys of service accounts %q: want one of https", o.JWKSURI)
	}
	return nil
}

// signingKey is the name of the key that signs tokens among what servers share.
const signingKey = "service-account-key"

// newIssuer returns what issues tokens of service accounts.
func newIssuer(s *store, opts Options) (*serviceaccount.Issuer, error) {
	o := opts.Accounts
	signing, err := loadSigningKey(s, opts)
	if err != nil {
		return nil, fmt.Errorf("signing key of service accounts: %w", err)
	}
	var others []any
	for _, file := range o.KeyFiles {
		pem, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("key of service accounts: %w", err)
		}
		keys, err := serviceaccount.ParsePublicKeys(pem)
		if err != nil {
			return nil, fmt.Errorf("key of service accounts in %s: %w", file, err)
		}
		others = append(others, keys...)
	}
	keys, err := serviceaccount.NewKeys(signing, others...)
	if err != nil {
		return nil, err
	}
	return serviceaccount.New(serviceaccount.Options{
		Keys: keys, State: s.state, Issuers: o.Issuers, Audiences: o.Audiences,
		MaxLifetime: o.MaxTokenExpiration, Exact: o.ExactExpiration,
	})
}

func loadSigningKey(s *store, opts Options) (any, error) {
	var pem []byte
	var err error
	switch {
	case opts.Accounts.SigningKeyFile != "":
		pem, err = os.ReadFile(opts.Accounts.SigningKeyFile)
	case s.signingKey != nil:
		pem = s.signingKey
	case opts.DataDir != "":
		pem, err = pki.SigningKey(filepath.Join(opts.DataDir, "pki"))
	default:
		return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	}
	if err != nil {
		return nil, err
	}
	return serviceaccount.ParseKey(pem)
}

// issuerDocuments are the documents of the issuer, if it can have any: its name need not be a URL.
func issuerDocuments(issuer *serviceaccount.Issuer, o AccountOptions, address string) map[string]endpoint.Document {
	at := o.JWKSURI
	if at == "" {
		server := advertised(address)
		if !server.IsValid() {
			return nil
		}
		at = (&url.URL{Scheme: "https", Host: server.String(), Path: serviceaccount.KeySetPath}).String()
	}
	type documents struct{ configuration, keys []byte }
	made := sync.OnceValues(func() (documents, error) {
		configuration, keys, err := issuer.Documents(at)
		return documents{configuration, keys}, err
	})
	document := func(mediaType string, pick func(documents) []byte) endpoint.Document {
		return endpoint.Document{MediaType: mediaType, MaxAge: time.Hour, Body: func() ([]byte, error) {
			d, err := made()
			return pick(d), err
		}}
	}
	return map[string]endpoint.Document{
		serviceaccount.ConfigurationPath: document("application/json", func(d documents) []byte { return d.configuration }),
		serviceaccount.KeySetPath:        document("application/jwk-set+json", func(d documents) []byte { return d.keys }),
	}
}
