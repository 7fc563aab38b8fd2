package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"time"
)

// A pair is a certificate and its key.
type pair struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// holds reports whether the certificate is valid now, and stays so for reserve.
func (p pair) holds(now time.Time, reserve time.Duration) bool {
	return now.After(p.cert.NotBefore) && now.Add(reserve).Before(p.cert.NotAfter)
}

// lasts reports whether the certificate is valid for reserve from now on, even if its validity has
// not begun. Authorities are kept on this condition: a clock that is set back must not replace what
// all clients trust.
func (p pair) lasts(now time.Time, reserve time.Duration) bool {
	return now.Add(reserve).Before(p.cert.NotAfter)
}

func (p pair) signedBy(authority pair) bool {
	return p.cert.CheckSignatureFrom(authority.cert) == nil
}

func (p pair) names(hosts []string) bool {
	for _, host := range hosts {
		if p.cert.VerifyHostname(host) != nil {
			return false
		}
	}
	return true
}

// certPEM returns the certificate in PEM.
func (p pair) certPEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.cert.Raw})
}

func (p pair) keyPEM() ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(p.key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

func (p pair) encode() ([]byte, error) {
	key, err := p.keyPEM()
	return append(p.certPEM(), key...), err
}

// parsePair decodes a certificate and its key.
func parsePair(data []byte) (pair, error) {
	p, err := parse(data)
	if err != nil {
		return pair{}, err
	}
	if p.cert == nil || p.key == nil {
		return pair{}, errors.New("it must have a certificate and an ECDSA key in PEM")
	}
	return p, p.match()
}

// errMismatch is returned for a certificate and a key that do not belong together.
var errMismatch = errors.New("the key does not belong to the certificate")

func (p pair) match() error {
	if !p.key.PublicKey.Equal(p.cert.PublicKey) {
		return errMismatch
	}
	return nil
}

// parse decodes the certificate and the key in data; either may be absent.
func parse(data []byte) (pair, error) {
	var p pair
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		switch block.Type {
		case "CERTIFICATE":
			cert, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				return pair{}, err
			}
			p.cert = cert
		case "PRIVATE KEY":
			key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
			if err != nil {
				return pair{}, err
			}
			p.key, _ = key.(*ecdsa.PrivateKey)
		}
	}
	return p, nil
}

func newAuthority(now time.Time) (pair, error) {
	return sign(authority(fmt.Sprintf("kapok-ca@%d", now.Unix()), now), nil, now)
}

// serving returns the template of a serving certificate for the hosts.
func serving(hosts []string) *x509.Certificate {
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: "kapok"},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	return template
}

// client returns the template of a client certificate for a user and groups.
func client(user string, groups ...string) *x509.Certificate {
	return &x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
}

func newLeaf(template *x509.Certificate, authority pair, now time.Time) (pair, error) {
	template.NotAfter = now.Add(leafLife)
	return sign(template, &authority, now)
}

// sign creates a key and a certificate for it. Without an authority the certificate signs itself.
func sign(template *x509.Certificate, authority *pair, now time.Time) (pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair{}, err
	}
	if template.SerialNumber, err = newSerial(); err != nil {
		return pair{}, err
	}
	template.NotBefore = now.Add(-time.Hour) // allows for differing clocks
	if authority == nil {
		template.NotBefore = now.Add(-authorityBackdate)
		authority = &pair{cert: template, key: key}
	}
	if end := authority.cert.NotAfter; template.NotAfter.After(end) {
		template.NotAfter = end
	}
	der, err := x509.CreateCertificate(rand.Reader, template, authority.cert, key.Public(), authority.key)
	if err != nil {
		return pair{}, err
	}
	cert, err := x509.ParseCertificate(der)
	return pair{cert: cert, key: key}, err
}
