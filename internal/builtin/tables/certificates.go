package tables

import (
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/duration"
)

// CertificateSigningRequests is the table of requests for certificates.
func CertificateSigningRequests() Table[certificatesv1.CertificateSigningRequest] {
	spec := certificatesv1beta1.CertificateSigningRequestSpec{}
	return Table[certificatesv1.CertificateSigningRequest]{Columns: []metav1.TableColumnDefinition{
		nameColumn(),
		ageColumn(),
		fieldColumn("SignerName", spec, "signerName"),
		fieldColumn("Requestor", spec, "request"),
		fieldColumn("RequestedDuration", spec, "expirationSeconds"),
		fieldColumn("Condition", certificatesv1beta1.CertificateSigningRequestStatus{}, "conditions"),
	}, Cells: signingRequestCells}
}

func signingRequestCells(r *certificatesv1.CertificateSigningRequest, now time.Time) []any {
	requested := "<none>"
	if s := r.Spec.ExpirationSeconds; s != nil {
		requested = duration.HumanDuration(time.Duration(*s) * time.Second)
	}
	return []any{r.Name, age(r.ObjectMeta, now), orNone(r.Spec.SignerName), r.Spec.Username, requested, signingRequestState(&r.Status)}
}

func signingRequestState(status *certificatesv1.CertificateSigningRequestStatus) string {
	has := map[certificatesv1.RequestConditionType]bool{}
	for _, c := range status.Conditions {
		has[c.Type] = true
	}
	state := "Pending"
	switch {
	case has[certificatesv1.CertificateDenied]:
		state = "Denied"
	case has[certificatesv1.CertificateApproved]:
		state = "Approved"
	}
	if has[certificatesv1.CertificateFailed] {
		state += ",Failed"
	}
	if len(status.Certificate) > 0 {
		state += ",Issued"
	}
	return state
}

// ClusterTrustBundles is the table of bundles of trust anchors.
func ClusterTrustBundles() Table[certificatesv1.ClusterTrustBundle] {
	return Table[certificatesv1.ClusterTrustBundle]{
		Columns: []metav1.TableColumnDefinition{nameColumn(), fieldColumn("SignerName", certificatesv1.ClusterTrustBundleSpec{}, "signerName")},
		Cells: func(b *certificatesv1.ClusterTrustBundle, _ time.Time) []any {
			return []any{b.Name, orNone(b.Spec.SignerName)}
		},
	}
}

// PodCertificateRequests is the table of the requests that kubelets make for pods.
func PodCertificateRequests() Table[certificatesv1.PodCertificateRequest] {
	spec := certificatesv1.PodCertificateRequestSpec{}
	return Table[certificatesv1.PodCertificateRequest]{Columns: []metav1.TableColumnDefinition{
		nameColumn(),
		fieldColumn("PodName", spec, "podName"),
		fieldColumn("ServiceAccountName", spec, "serviceAccountName"),
		fieldColumn("NodeName", spec, "nodeName"),
		fieldColumn("SignerName", spec, "signerName"),
		column("State", "Is the request Pending, Issued, Denied, or Failed?"),
		fieldColumn("UnverifiedUserAnnotations", spec, "unverifiedUserAnnotations"),
	}, Cells: podCertificateCells}
}

func podCertificateCells(r *certificatesv1.PodCertificateRequest, _ time.Time) []any {
	state := "Pending"
	for _, c := range r.Status.Conditions {
		switch c.Type {
		case certificatesv1.PodCertificateRequestConditionTypeIssued, certificatesv1.PodCertificateRequestConditionTypeDenied,
			certificatesv1.PodCertificateRequestConditionTypeFailed:
			state = c.Type
		}
	}
	return []any{
		r.Name, r.Spec.PodName, r.Spec.ServiceAccountName, string(r.Spec.NodeName), r.Spec.SignerName, state,
		labels.FormatLabels(r.Spec.UnverifiedUserAnnotations),
	}
}
