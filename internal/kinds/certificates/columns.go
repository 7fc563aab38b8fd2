package certificates

import (
	"time"

	"github.com/kapok-dev/kapok/internal/kinds/kind"

	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/duration"
)

// certificateSigningRequestsTable is the table of requests for certificates.
func certificateSigningRequestsTable() kind.Table[*certificatesv1.CertificateSigningRequest] {
	spec := certificatesv1beta1.CertificateSigningRequestSpec{}
	return kind.Table[*certificatesv1.CertificateSigningRequest]{Columns: []metav1.TableColumnDefinition{
		kind.NameColumn(),
		kind.AgeColumn(),
		kind.FieldColumn("SignerName", spec, "signerName"),
		kind.FieldColumn("Requestor", spec, "request"),
		kind.FieldColumn("RequestedDuration", spec, "expirationSeconds"),
		kind.FieldColumn("Condition", certificatesv1beta1.CertificateSigningRequestStatus{}, "conditions"),
	}, Cells: signingRequestCells}
}

func signingRequestCells(r *certificatesv1.CertificateSigningRequest, now time.Time) []any {
	requested := "<none>"
	if s := r.Spec.ExpirationSeconds; s != nil {
		requested = duration.HumanDuration(time.Duration(*s) * time.Second)
	}
	return []any{r.Name, kind.Age(r.ObjectMeta, now), kind.OrNone(r.Spec.SignerName), r.Spec.Username, requested, signingRequestState(&r.Status)}
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

// clusterTrustBundlesTable is the table of bundles of trust anchors.
func clusterTrustBundlesTable() kind.Table[*certificatesv1.ClusterTrustBundle] {
	return kind.Table[*certificatesv1.ClusterTrustBundle]{
		Columns: []metav1.TableColumnDefinition{kind.NameColumn(), kind.FieldColumn("SignerName", certificatesv1.ClusterTrustBundleSpec{}, "signerName")},
		Cells: func(b *certificatesv1.ClusterTrustBundle, _ time.Time) []any {
			return []any{b.Name, kind.OrNone(b.Spec.SignerName)}
		},
	}
}

// podCertificateRequestsTable is the table of the certificate requests of kubelets for pods.
func podCertificateRequestsTable() kind.Table[*certificatesv1.PodCertificateRequest] {
	spec := certificatesv1.PodCertificateRequestSpec{}
	return kind.Table[*certificatesv1.PodCertificateRequest]{Columns: []metav1.TableColumnDefinition{
		kind.NameColumn(),
		kind.FieldColumn("PodName", spec, "podName"),
		kind.FieldColumn("ServiceAccountName", spec, "serviceAccountName"),
		kind.FieldColumn("NodeName", spec, "nodeName"),
		kind.FieldColumn("SignerName", spec, "signerName"),
		kind.Column("State", "Is the request Pending, Issued, Denied, or Failed?"),
		kind.FieldColumn("UnverifiedUserAnnotations", spec, "unverifiedUserAnnotations"),
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
