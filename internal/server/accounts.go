package server

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/kapok-dev/kapok/internal/authn/serviceaccount"
	"github.com/kapok-dev/kapok/internal/endpoint"
	"github.com/kapok-dev/kapok/internal/pki"
	"github.com/kapok-dev/kapok/internal/state"
)

// keepsAccounts reports whether each namespace has an account default, and so whether pods must
// have an account.
func (o *Options) keepsAccounts() bool { return !o.KeepGarbage && !o.Accounts.None }

// signingKey is the name of the key that signs tokens among the secrets that servers share.
const signingKey = "service-account-key"

// newIssuer returns the issuer of service account tokens.
func newIssuer(st *state.State, shared []byte, opts Options) (*serviceaccount.Issuer, error) {
	o := opts.Accounts
	signing, err := loadSigningKey(shared, opts)
	if err != nil {
		return nil, fmt.Errorf("signing key of service accounts: %w", err)
	}
	var others []any
	for _, file := range o.KeyFiles {
		pem, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("Options.Accounts.KeyFiles: %w", err)
		}
		keys, err := serviceaccount.ParsePublicKeys(pem)
		if err != nil {
			return nil, fmt.Errorf("Options.Accounts.KeyFiles has %q: %w", file, err)
		}
		others = append(others, keys...)
	}
	keys, err := serviceaccount.NewKeys(signing, others...)
	if err != nil {
		return nil, err
	}
	return serviceaccount.New(serviceaccount.Config{Options: o, Keys: keys, State: st})
}

// loadSigningKey returns the key that signs tokens. shared is the key of all servers on a store, or
// nil.
func loadSigningKey(shared []byte, opts Options) (any, error) {
	var pem []byte
	var err error
	from := opts.Accounts.SigningKeyFile
	switch {
	case from != "":
		pem, err = os.ReadFile(from)
	case shared != nil:
		from, pem = "signing key in the store", shared
	case opts.DataDir != "":
		from = filepath.Join(opts.DataDir, "pki", pki.SigningFile)
		pem, err = pki.SigningKey(filepath.Join(opts.DataDir, "pki"))
	default:
		return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	}
	if err != nil {
		return nil, err
	}
	key, err := serviceaccount.ParseKey(pem)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: want an RSA or ECDSA private key in PEM", from, err)
	}
	return key, nil
}

// issuerDocuments returns the discovery documents of the issuer; nil if the server has no address
// for them.
func issuerDocuments(issuer *serviceaccount.Issuer, p parts) map[string]endpoint.Document {
	at := p.options.Accounts.JWKSURI
	if at == "" {
		host := p.external()
		if p.options.ExternalHost == "" {
			server := advertised(p.address, p.options.AdvertiseAddress)
			if !server.IsValid() {
				return nil
			}
			host = server.String()
		}
		at = (&url.URL{Scheme: "https", Host: host, Path: serviceaccount.KeySetPath}).String()
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
