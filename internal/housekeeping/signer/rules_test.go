package signer

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"net"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/utils/ptr"
)

func TestRules(t *testing.T) {
	const (
		client   = certificatesv1.KubeAPIServerClientSignerName
		kubelet  = certificatesv1.KubeAPIServerClientKubeletSignerName
		serving  = certificatesv1.KubeletServingSignerName
		server   = certificatesv1.UsageServerAuth
		auth     = certificatesv1.UsageClientAuth
		sign     = certificatesv1.UsageDigitalSignature
		encipher = certificatesv1.UsageKeyEncipherment
	)
	node := func(change func(*x509.CertificateRequest)) *x509.CertificateRequest {
		r := &x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:n1", Organization: []string{"system:nodes"}}}
		if change != nil {
			change(r)
		}
		return r
	}
	named := func(change func(*x509.CertificateRequest)) *x509.CertificateRequest {
		r := node(func(r *x509.CertificateRequest) { r.DNSNames = []string{"n1"} })
		if change != nil {
			change(r)
		}
		return r
	}
	type usages = []certificatesv1.KeyUsage
	for _, tc := range []struct {
		name    string
		signer  string
		request *x509.CertificateRequest
		usages  usages
		problem string
	}{
		{"client", client, node(nil), usages{auth}, ""},
		{"client, all usages", client, node(nil), usages{sign, encipher, auth}, ""},
		{"client without its usage", client, node(nil), usages{sign}, "missing required usage for client certificate: client auth"},
		{"client and server", client, node(nil), usages{auth, certificatesv1.UsageServerAuth}, "invalid usage for client certificate: server auth"},
		{"client that signs others", client, node(nil), usages{auth, certificatesv1.UsageCertSign}, "invalid usage for client certificate: cert sign"},
		{"kubelet", kubelet, node(nil), usages{sign, encipher, auth}, ""},
		{"kubelet with another key", kubelet, node(nil), usages{auth, sign}, ""},
		{"kubelet, too few usages", kubelet, node(nil), usages{auth}, "usages did not match [client auth digital signature key encipherment]"},
		{"kubelet of no group", kubelet, node(func(r *x509.CertificateRequest) { r.Subject.Organization = nil }), usages{auth, sign}, "subject organization is not system:nodes"},
		{"kubelet of more groups", kubelet, node(func(r *x509.CertificateRequest) { r.Subject.Organization = []string{"system:nodes", "system:masters"} }), usages{auth, sign}, "subject organization is not system:nodes"},
		{"kubelet of no node", kubelet, node(func(r *x509.CertificateRequest) { r.Subject.CommonName = "alice" }), usages{auth, sign}, "subject common name does not begin with system:node:"},
		{"kubelet with a name", kubelet, node(func(r *x509.CertificateRequest) { r.DNSNames = []string{"a"} }), usages{auth, sign}, "DNS subjectAltNames are not allowed"},
		{"kubelet with a mail", kubelet, node(func(r *x509.CertificateRequest) { r.EmailAddresses = []string{"a"} }), usages{auth, sign}, "Email subjectAltNames are not allowed"},
		{"kubelet with an address", kubelet, node(func(r *x509.CertificateRequest) { r.IPAddresses = []net.IP{{1, 2, 3, 4}} }), usages{auth, sign}, "IP subjectAltNames are not allowed"},
		{"serving", serving, named(nil), usages{sign, encipher, server}, ""},
		{"serving with another key", serving, named(nil), usages{sign, server}, ""},
		{"serving for an address", serving, named(func(r *x509.CertificateRequest) { r.DNSNames, r.IPAddresses = nil, []net.IP{{1, 2, 3, 4}} }), usages{sign, server}, ""},
		{"serving as a client", serving, named(nil), usages{sign, auth}, "usages did not match [digital signature key encipherment server auth]"},
		{"serving and a client", serving, named(nil), usages{sign, server, auth}, "usages did not match"},
		{"serving of no group", serving, named(func(r *x509.CertificateRequest) { r.Subject.Organization = nil }), usages{sign, server}, "subject organization is not system:nodes"},
		{"serving of no node", serving, named(func(r *x509.CertificateRequest) { r.Subject.CommonName = "alice" }), usages{sign, server}, "subject common name does not begin with system:node:"},
		{"serving without a name", serving, node(nil), usages{sign, server}, "DNS or IP subjectAltName is required"},
		{"serving with a mail", serving, named(func(r *x509.CertificateRequest) { r.EmailAddresses = []string{"a"} }), usages{sign, server}, "Email subjectAltNames are not allowed"},
		{"serving with a URI", serving, named(func(r *x509.CertificateRequest) { r.URIs = []*url.URL{{}} }), usages{sign, server}, "URI subjectAltNames are not allowed"},
		{"kubelet with a URI", kubelet, node(func(r *x509.CertificateRequest) { r.URIs = []*url.URL{{}} }), usages{auth, sign}, "URI subjectAltNames are not allowed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := rules[tc.signer](tc.request, tc.usages)
			if (err == nil) != (tc.problem == "") || err != nil && !strings.Contains(err.Error(), tc.problem) {
				t.Errorf("got %v, want %q", err, tc.problem)
			}
		})
	}
	if len(rules) != 3 {
		t.Errorf("%d signers", len(rules))
	}
}

func TestLife(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, tc := range []struct {
		seconds *int32
		want    time.Duration // until the certificate ends
	}{
		{nil, longest - backdate},
		{ptr.To[int32](1), 10 * time.Minute},
		{ptr.To[int32](3600), time.Hour},
		{ptr.To[int32](8*3600 - 1), 8*time.Hour - time.Second},
		{ptr.To[int32](8 * 3600), 8*time.Hour - backdate},
		{ptr.To[int32](1 << 30), longest - backdate},
		{ptr.To[int32](-5), 10 * time.Minute},
	} {
		c := template(&x509.CertificateRequest{}, nil, life(tc.seconds), now)
		if got := c.NotAfter.Sub(now); got != tc.want || now.Sub(c.NotBefore) != backdate {
			t.Errorf("%v: until %v, from %v, want %v", tc.seconds, got, c.NotBefore, tc.want)
		}
	}
}

// TestTemplate checks that the certificate has the names and usages of the request, and nothing
// else.
func TestTemplate(t *testing.T) {
	r := &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: "alice"}, DNSNames: []string{"a"}, EmailAddresses: []string{"b"},
		IPAddresses: []net.IP{{1, 2, 3, 4}}, URIs: []*url.URL{{Host: "c"}},
		Extensions: []pkix.Extension{{Id: []int{2, 5, 29, 19}, Value: []byte("CA")}}, ExtraExtensions: []pkix.Extension{{Id: []int{2, 5, 29, 19}}},
	}
	c := template(r, []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth, certificatesv1.UsageKeyEncipherment}, time.Hour, time.Now())
	if c.Subject.CommonName != "alice" || len(c.DNSNames)+len(c.EmailAddresses)+len(c.IPAddresses)+len(c.URIs) != 4 {
		t.Errorf("names: %+v", c)
	}
	if len(c.Extensions)+len(c.ExtraExtensions) > 0 || c.IsCA {
		t.Errorf("extensions: %v, %v", c.Extensions, c.ExtraExtensions)
	}
	if c.KeyUsage != x509.KeyUsageKeyEncipherment || !slices.Equal(c.ExtKeyUsage, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}) {
		t.Errorf("usages: %v, %v", c.KeyUsage, c.ExtKeyUsage)
	}
}
