package certificates

import (
	"github.com/kapok-dev/kapok/convert"
	"github.com/kapok-dev/kapok/internal/kinds/kind"

	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1alpha1 "k8s.io/api/certificates/v1alpha1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
)

// Conversions are the conversions of this group's types.
func Conversions() []convert.Rule {
	return []convert.Rule{
		kind.Same[certificatesv1.CertificateSigningRequest, certificatesv1.CertificateSigningRequest](),
		kind.Same[certificatesv1.CertificateSigningRequest, certificatesv1beta1.CertificateSigningRequest](),
		kind.Both(
			func(in *certificatesv1beta1.CertificateSigningRequestSpec, hub *certificatesv1.CertificateSigningRequestSpec) error {
				if in.SignerName != nil {
					hub.SignerName = *in.SignerName
				}
				return nil
			},
			func(hub *certificatesv1.CertificateSigningRequestSpec, out *certificatesv1beta1.CertificateSigningRequestSpec) error {
				signer := hub.SignerName
				out.SignerName = &signer
				return nil
			},
		),
		kind.Same[certificatesv1.ClusterTrustBundle, certificatesv1.ClusterTrustBundle](),
		kind.Same[certificatesv1.ClusterTrustBundle, certificatesv1beta1.ClusterTrustBundle](),
		kind.Same[certificatesv1.ClusterTrustBundle, certificatesv1alpha1.ClusterTrustBundle](),
		kind.Same[certificatesv1beta1.PodCertificateRequest, certificatesv1.PodCertificateRequest](),
		kind.Same[certificatesv1beta1.PodCertificateRequest, certificatesv1beta1.PodCertificateRequest](),
		kind.Lossy[certificatesv1.PodCertificateRequestSpec, certificatesv1beta1.PodCertificateRequestSpec](), // fields that are required in v1 may be missing
	}
}
