package authn

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"time"
)

// maxSignatures is the maximum number of signatures of a client's intermediate certificates that
// the server checks. crypto/x509 and kube-apiserver have a limit of 100; with expensive keys these
// take a second of processor time before the client is authenticated. A chain of 16 intermediates
// is within the limit, as is one of three each of which is cross-signed.
const maxSignatures = 16

// verify returns the time until which the certificate of a client is valid, if the authorities have
// signed it. The first of certs is the client's, the others are intermediates in any order.
func verify(authorities *x509.CertPool, certs []*x509.Certificate) (time.Time, error) {
	leaf, sent := certs[0], certs[1:]
	if p := (paths{sent: sent, on: make([]bool, len(sent)), left: maxSignatures}); !p.walk(leaf) {
		return time.Time{}, fmt.Errorf("too many paths through %d intermediate certificates: must have at most %d signatures", len(sent), maxSignatures)
	}
	opts := x509.VerifyOptions{
		Roots:         authorities,
		Intermediates: x509.NewCertPool(),
		KeyUsages:     []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	for _, c := range sent {
		opts.Intermediates.AddCert(c)
	}
	chains, err := leaf.Verify(opts)
	if err != nil {
		return time.Time{}, err
	}
	// Any of the chains suffices: use the one that is valid longest.
	var expires time.Time
	for _, chain := range chains {
		end := chain[0].NotAfter
		for _, c := range chain[1:] {
			if c.NotAfter.Before(end) {
				end = c.NotAfter
			}
		}
		if end.After(expires) {
			expires = end
		}
	}
	return expires, nil
}

// paths counts the paths through the certificates of a client by their names alone. Each step of a
// path is a signature that crypto/x509 checks in the worst case: it takes the same steps, but stops
// at invalid signatures and certificates.
type paths struct {
	sent []*x509.Certificate
	on   []bool // whether a certificate is on the path
	left int    // number of steps left
}

// walk takes all steps from a certificate, and returns false if there are too many.
func (p *paths) walk(from *x509.Certificate) bool {
	for i, issuer := range p.sent {
		if p.on[i] || !bytes.Equal(issuer.RawSubject, from.RawIssuer) {
			continue
		}
		if p.left == 0 {
			return false
		}
		p.left--
		p.on[i] = true
		if !p.walk(issuer) {
			return false
		}
		p.on[i] = false
	}
	return true
}
