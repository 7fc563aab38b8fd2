//go:build linux

package soak

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// files are what a server reads again when it changes: its certificate, the tokens of a user, and
// the keys of encryption. They have generations.
type files struct {
	t          *testing.T
	dir        string
	key        *ecdsa.PrivateKey // of all certificates
	authority  *x509.Certificate
	generation int
	keys       []string // of encryption, the newest first
}

// tokensKept is the number of generations for which a token is valid: client-go reads a token file
// once in a minute.
const tokensKept = 3

func newFiles(t *testing.T) *files {
	t.Helper()
	f := &files{t: t, dir: t.TempDir()}
	var err error
	if f.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	f.authority = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "soak"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(1, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	f.write("ca.crt", f.certificate(f.authority))
	f.rotate()
	f.handOut()
	return f
}

// certificate returns a certificate of the authority, in PEM.
func (f *files) certificate(of *x509.Certificate) []byte {
	der, err := x509.CreateCertificate(rand.Reader, of, f.authority, f.key.Public(), f.key)
	if err != nil {
		f.t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// path returns the path of a file.
func (f *files) path(name string) string { return filepath.Join(f.dir, name) }

// write replaces a file at once.
func (f *files) write(name string, data []byte) {
	next := f.path(name + ".next")
	if err := os.WriteFile(next, data, 0o600); err != nil {
		f.t.Fatal(err)
	}
	if err := os.Rename(next, f.path(name)); err != nil {
		f.t.Fatal(err)
	}
}

// flags are the server's.
func (f *files) flags() []string {
	return []string{
		"--tls-cert-file", f.path("server.crt"), "--tls-private-key-file", f.path("server.key"),
		"--token-auth-file", f.path("tokens.csv"), "--encryption-provider-config", f.path("encryption.yaml"),
	}
}

// rotate writes the next generation for the server.
func (f *files) rotate() {
	f.generation++
	key, err := x509.MarshalPKCS8PrivateKey(f.key)
	if err != nil {
		f.t.Fatal(err)
	}
	f.write("server.key", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}))
	f.write("server.crt", f.certificate(&x509.Certificate{
		SerialNumber: big.NewInt(int64(1000 + f.generation)), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(0, 1, 0),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}))

	var tokens bytes.Buffer
	for g := f.generation; g > max(0, f.generation-tokensKept); g-- {
		fmt.Fprintf(&tokens, "%s,admin,1,system:masters\n", token(g))
	}
	f.write("tokens.csv", tokens.Bytes())

	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // never fails
	f.keys = append([]string{fmt.Sprintf("{name: key%d, secret: %s}", f.generation, base64.StdEncoding.EncodeToString(secret))}, f.keys...)
	f.write("encryption.yaml", []byte("apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n"+
		"- resources: [secrets, configmaps]\n  providers: [secretbox: {keys: ["+strings.Join(f.keys, ", ")+"]}]\n"))
}

// handOut gives clients the newest token, which the server must have read.
func (f *files) handOut() { f.write("token", []byte(token(f.generation))) }

// token returns the token of a generation.
func token(generation int) string { return fmt.Sprintf("generation-%d", generation) }

// served returns a condition: the server has the newest certificate.
func (f *files) served(address string) func() bool {
	return func() bool {
		conn, err := tls.Dial("tcp", strings.TrimPrefix(address, "https://"), &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			return false
		}
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64() == int64(1000+f.generation)
	}
}
