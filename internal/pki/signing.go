package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
)

// SigningFile is the file of the key that signs tokens of service accounts.
const SigningFile = "service-account.pem"

// NewSigningKey creates a key for tokens of service accounts, in PEM.
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

// SigningKey returns the key for tokens of service accounts in a directory, in PEM. It creates the
// key if it is missing.
func SigningKey(dir string) ([]byte, error) {
	store := store{dir}
	if err := store.prepare(); err != nil {
		return nil, err
	}
	key, err := store.read(SigningFile)
	if key != nil || err != nil {
		return key, err
	}
	if key, err = NewSigningKey(); err != nil {
		return nil, err
	}
	return key, store.write(SigningFile, key)
}

// RootCA returns the certificate with which clients verify the server, in PEM.
func (c *Credentials) RootCA() []byte { return c.authority.certPEM() }
