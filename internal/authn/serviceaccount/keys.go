package serviceaccount

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"

	"github.com/go-jose/go-jose/v4"
	"k8s.io/client-go/util/keyutil"
)

// Keys sign and verify tokens. They are immutable.
type Keys struct {
	signer jose.Signer
	all    []key // the signing one first
}

// A key verifies signatures of its algorithm.
type key struct {
	id        string
	algorithm jose.SignatureAlgorithm
	public    crypto.PublicKey
}

// NewKeys returns keys. signing, an RSA or ECDSA private key, signs and verifies; the others, which
// are public or private keys, only verify.
func NewKeys(signing any, others ...any) (*Keys, error) {
	private, ok := signing.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("signing key of service accounts: a private RSA or ECDSA key is expected, not %T", signing)
	}
	k := &Keys{}
	for _, one := range append([]any{signing}, others...) {
		made, err := newKey(one)
		if err != nil {
			return nil, fmt.Errorf("key of service accounts: %w", err)
		}
		k.all = append(k.all, made)
	}
	var err error
	k.signer, err = jose.NewSigner(jose.SigningKey{
		Algorithm: k.all[0].algorithm,
		Key:       &jose.JSONWebKey{Algorithm: string(k.all[0].algorithm), Key: private, KeyID: k.all[0].id, Use: "sig"},
	}, k.headers())
	if err != nil {
		return nil, fmt.Errorf("signing key of service accounts: %w", err)
	}
	return k, nil
}

// ParseKey reads a private key in PEM.
func ParseKey(pem []byte) (any, error) { return keyutil.ParsePrivateKeyPEM(pem) }

// ParsePublicKeys reads public keys in PEM, and the public parts of private ones.
func ParsePublicKeys(pem []byte) ([]any, error) { return keyutil.ParsePublicKeysPEM(pem) }

func newKey(from any) (key, error) {
	if private, ok := from.(crypto.Signer); ok {
		from = private.Public()
	}
	k := key{public: from}
	switch public := from.(type) {
	case *rsa.PublicKey:
		k.algorithm = jose.RS256
	case *ecdsa.PublicKey:
		switch public.Curve {
		case elliptic.P256():
			k.algorithm = jose.ES256
		case elliptic.P384():
			k.algorithm = jose.ES384
		case elliptic.P521():
			k.algorithm = jose.ES512
		default:
			return key{}, errors.New("the curve of an ECDSA key must be P-256, P-384 or P-521")
		}
	default:
		return key{}, fmt.Errorf("an RSA or ECDSA key is expected, not %T", from)
	}
	der, err := x509.MarshalPKIXPublicKey(from)
	if err != nil {
		return key{}, err
	}
	sum := sha256.Sum256(der)
	k.id = base64.RawURLEncoding.EncodeToString(sum[:])
	return k, nil
}

// named returns the keys with an ID; all keys if it is empty.
func (k *Keys) named(id string) []key {
	if id == "" {
		return k.all
	}
	for i := range k.all {
		if k.all[i].id == id {
			return k.all[i : i+1]
		}
	}
	return nil
}
