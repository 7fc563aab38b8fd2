package certificates

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net"
	"testing"

	"github.com/kapok-dev/kapok/internal/kinds/defaults"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
)

// TestSignerOfOldRequests checks that requests of kubelets are recognized by their content.
func TestSignerOfOldRequests(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	node := pkix.Name{CommonName: "system:node:n", Organization: []string{"system:nodes"}}
	client := []certificatesv1beta1.KeyUsage{"digital signature", "client auth"}
	server := []certificatesv1beta1.KeyUsage{"server auth", "key encipherment", "digital signature"}
	for _, test := range []struct {
		name    string
		request *x509.CertificateRequest
		usages  []certificatesv1beta1.KeyUsage
		want    string
	}{
		{"client", &x509.CertificateRequest{Subject: node}, client, certificatesv1beta1.KubeAPIServerClientKubeletSignerName},
		{"client with a name", &x509.CertificateRequest{Subject: node, DNSNames: []string{"n"}}, client, certificatesv1beta1.LegacyUnknownSignerName},
		{"server", &x509.CertificateRequest{Subject: node, IPAddresses: []net.IP{{1, 2, 3, 4}}}, server, certificatesv1beta1.KubeletServingSignerName},
		{"server without a name", &x509.CertificateRequest{Subject: node}, server, certificatesv1beta1.LegacyUnknownSignerName},
		{"mail", &x509.CertificateRequest{Subject: node, EmailAddresses: []string{"a@b"}}, client, certificatesv1beta1.LegacyUnknownSignerName},
		{"usages are missing", &x509.CertificateRequest{Subject: node}, nil, certificatesv1beta1.LegacyUnknownSignerName},
		{"one usage more", &x509.CertificateRequest{Subject: node}, append(server, "client auth"), certificatesv1beta1.LegacyUnknownSignerName},
		{"another user", &x509.CertificateRequest{Subject: pkix.Name{CommonName: "jane"}}, client, certificatesv1beta1.LegacyUnknownSignerName},
		{"no request", nil, client, certificatesv1beta1.LegacyUnknownSignerName},
	} {
		csr := &certificatesv1beta1.CertificateSigningRequest{Spec: certificatesv1beta1.CertificateSigningRequestSpec{Usages: test.usages}}
		if test.request != nil {
			der, err := x509.CreateCertificateRequest(rand.Reader, test.request, key)
			if err != nil {
				t.Fatal(err)
			}
			csr.Spec.Request = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
		}
		defaults.New(Defaults).VisitAll(csr)
		if got := *csr.Spec.SignerName; got != test.want {
			t.Errorf("%s: signer is %s, want %s", test.name, got, test.want)
		}
	}
}
