package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
)

// signingFile holds the key that signs tokens of service accounts.
const signingFile = "service-account.pem"

// NewSigningKey makes a key for tokens of service accounts, in PEM.
func NewSigningKey() ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// SigningKey returns the key for tokens of service accounts that lies in a directory, in PEM. It makes what is missing.
func SigningKey(dir string) ([]byte, error) {
	store := store{dir}
	if err := store.prepare(); err != nil {
		return nil, err
	}
	key, err := store.read(signingFile)
	if key != nil || err != nil {
		return key, err
	}
	if key, err = NewSigningKey(); err != nil {
		return nil, err
	}
	return key, store.write(signingFile, key)
}

// RootCA returns the certificate, in PEM, that clients trust the server by.
func (c *Credentials) RootCA() []byte { return c.authority.certPEM() }
