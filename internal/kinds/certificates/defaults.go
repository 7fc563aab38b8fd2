package certificates

import (
	"crypto/x509"
	"encoding/pem"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/internal/kinds/defaults"

	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"
)

// Defaults registers the defaults of this group's types.
func Defaults(f *defaults.Functions) {
	defaults.On(f, func(s *certificatesv1beta1.CertificateSigningRequestSpec) {
		if s.Usages == nil {
			s.Usages = []certificatesv1beta1.KeyUsage{certificatesv1beta1.UsageDigitalSignature, certificatesv1beta1.UsageKeyEncipherment}
		}
		defaults.Pointer(&s.SignerName, signerOf(s))
	})
	defaults.On(f, func(c *certificatesv1beta1.CertificateSigningRequestCondition) {
		defaults.Value(&c.Status, corev1.ConditionTrue)
	})
	defaults.On(f, func(s *certificatesv1.PodCertificateRequestSpec) { defaults.Pointer(&s.MaxExpirationSeconds, 86400) })
	defaults.On(f, func(s *certificatesv1beta1.PodCertificateRequestSpec) {
		defaults.Pointer(&s.MaxExpirationSeconds, 86400)
	})
}

// signerOf returns the signer of a request without one: requests of kubelets are recognized by
// their content.
func signerOf(spec *certificatesv1beta1.CertificateSigningRequestSpec) string {
	const (
		signing  = certificatesv1beta1.UsageDigitalSignature
		exchange = certificatesv1beta1.UsageKeyEncipherment
	)
	block, _ := pem.Decode(spec.Request)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return certificatesv1beta1.LegacyUnknownSignerName
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil || !slices.Equal(request.Subject.Organization, []string{"system:nodes"}) ||
		!strings.HasPrefix(request.Subject.CommonName, "system:node:") || len(request.EmailAddresses)+len(request.URIs) > 0 {
		return certificatesv1beta1.LegacyUnknownSignerName
	}
	asks := func(usage certificatesv1beta1.KeyUsage) bool {
		want := []certificatesv1beta1.KeyUsage{signing, usage}
		if slices.Contains(spec.Usages, exchange) {
			want = append(want, exchange)
		}
		got := slices.Compact(slices.Sorted(slices.Values(spec.Usages)))
		slices.Sort(want)
		return slices.Equal(got, want)
	}
	named := len(request.DNSNames)+len(request.IPAddresses) > 0
	switch {
	case !named && asks(certificatesv1beta1.UsageClientAuth):
		return certificatesv1beta1.KubeAPIServerClientKubeletSignerName
	case named && asks(certificatesv1beta1.UsageServerAuth):
		return certificatesv1beta1.KubeletServingSignerName
	}
	return certificatesv1beta1.LegacyUnknownSignerName
}
