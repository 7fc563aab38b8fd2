package versions

import (
	"github.com/kapok-dev/kapok/convert"

	admissionv1 "k8s.io/api/admission/v1"
	admissionv1beta1 "k8s.io/api/admission/v1beta1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	admissionregistrationv1alpha1 "k8s.io/api/admissionregistration/v1alpha1"
	admissionregistrationv1beta1 "k8s.io/api/admissionregistration/v1beta1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authenticationv1alpha1 "k8s.io/api/authentication/v1alpha1"
	authenticationv1beta1 "k8s.io/api/authentication/v1beta1"
	authorizationv1 "k8s.io/api/authorization/v1"
	authorizationv1beta1 "k8s.io/api/authorization/v1beta1"
	batchv1 "k8s.io/api/batch/v1"
	batchv1beta1 "k8s.io/api/batch/v1beta1"
	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1alpha1 "k8s.io/api/certificates/v1alpha1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	coordinationv1 "k8s.io/api/coordination/v1"
	coordinationv1alpha2 "k8s.io/api/coordination/v1alpha2"
	coordinationv1beta1 "k8s.io/api/coordination/v1beta1"
	nodev1 "k8s.io/api/node/v1"
	nodev1alpha1 "k8s.io/api/node/v1alpha1"
	nodev1beta1 "k8s.io/api/node/v1beta1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	storagev1 "k8s.io/api/storage/v1"
	storagev1alpha1 "k8s.io/api/storage/v1alpha1"
	storagev1beta1 "k8s.io/api/storage/v1beta1"
	storagemigrationv1 "k8s.io/api/storagemigration/v1"
	storagemigrationv1beta1 "k8s.io/api/storagemigration/v1beta1"
)

// Here are the groups in whose versions nearly all fields have the same names.

func batch() []convert.Rule {
	return []convert.Rule{
		same[batchv1.CronJob, batchv1.CronJob](),
		same[batchv1.CronJob, batchv1beta1.CronJob](),
	}
}

func storage() []convert.Rule {
	return []convert.Rule{
		same[storagev1.StorageClass, storagev1.StorageClass](),
		same[storagev1.StorageClass, storagev1beta1.StorageClass](),
		same[storagev1.VolumeAttachment, storagev1.VolumeAttachment](),
		same[storagev1.VolumeAttachment, storagev1beta1.VolumeAttachment](),
		same[storagev1.VolumeAttachment, storagev1alpha1.VolumeAttachment](),
		same[storagev1.CSIDriver, storagev1.CSIDriver](),
		same[storagev1.CSIDriver, storagev1beta1.CSIDriver](),
		same[storagev1.CSINode, storagev1.CSINode](),
		same[storagev1.CSINode, storagev1beta1.CSINode](),
		lossy[storagev1.CSINode, storagev1beta1.CSINode](), // v1 has a status
		same[storagev1.CSIStorageCapacity, storagev1.CSIStorageCapacity](),
		same[storagev1.CSIStorageCapacity, storagev1beta1.CSIStorageCapacity](),
		same[storagev1.CSIStorageCapacity, storagev1alpha1.CSIStorageCapacity](),
		same[storagev1.VolumeAttributesClass, storagev1.VolumeAttributesClass](),
		same[storagev1.VolumeAttributesClass, storagev1beta1.VolumeAttributesClass](),
		same[storagev1.VolumeAttributesClass, storagev1alpha1.VolumeAttributesClass](),
	}
}

func admission() []convert.Rule {
	return []convert.Rule{
		same[admissionregistrationv1.ValidatingWebhookConfiguration, admissionregistrationv1.ValidatingWebhookConfiguration](),
		same[admissionregistrationv1.ValidatingWebhookConfiguration, admissionregistrationv1beta1.ValidatingWebhookConfiguration](),
		same[admissionregistrationv1.MutatingWebhookConfiguration, admissionregistrationv1.MutatingWebhookConfiguration](),
		same[admissionregistrationv1.MutatingWebhookConfiguration, admissionregistrationv1beta1.MutatingWebhookConfiguration](),
		same[admissionregistrationv1.ValidatingAdmissionPolicy, admissionregistrationv1.ValidatingAdmissionPolicy](),
		same[admissionregistrationv1.ValidatingAdmissionPolicy, admissionregistrationv1beta1.ValidatingAdmissionPolicy](),
		same[admissionregistrationv1.ValidatingAdmissionPolicy, admissionregistrationv1alpha1.ValidatingAdmissionPolicy](),
		same[admissionregistrationv1.ValidatingAdmissionPolicyBinding, admissionregistrationv1.ValidatingAdmissionPolicyBinding](),
		same[admissionregistrationv1.ValidatingAdmissionPolicyBinding, admissionregistrationv1beta1.ValidatingAdmissionPolicyBinding](),
		same[admissionregistrationv1.ValidatingAdmissionPolicyBinding, admissionregistrationv1alpha1.ValidatingAdmissionPolicyBinding](),
		same[admissionregistrationv1.MutatingAdmissionPolicy, admissionregistrationv1.MutatingAdmissionPolicy](),
		same[admissionregistrationv1.MutatingAdmissionPolicy, admissionregistrationv1beta1.MutatingAdmissionPolicy](),
		same[admissionregistrationv1.MutatingAdmissionPolicy, admissionregistrationv1alpha1.MutatingAdmissionPolicy](),
		same[admissionregistrationv1.MutatingAdmissionPolicyBinding, admissionregistrationv1.MutatingAdmissionPolicyBinding](),
		same[admissionregistrationv1.MutatingAdmissionPolicyBinding, admissionregistrationv1beta1.MutatingAdmissionPolicyBinding](),
		same[admissionregistrationv1.MutatingAdmissionPolicyBinding, admissionregistrationv1alpha1.MutatingAdmissionPolicyBinding](),
	}
}

func certificates() []convert.Rule {
	return []convert.Rule{
		same[certificatesv1.CertificateSigningRequest, certificatesv1.CertificateSigningRequest](),
		same[certificatesv1.CertificateSigningRequest, certificatesv1beta1.CertificateSigningRequest](),
		both(
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
		same[certificatesv1.ClusterTrustBundle, certificatesv1.ClusterTrustBundle](),
		same[certificatesv1.ClusterTrustBundle, certificatesv1beta1.ClusterTrustBundle](),
		same[certificatesv1.ClusterTrustBundle, certificatesv1alpha1.ClusterTrustBundle](),
		same[certificatesv1beta1.PodCertificateRequest, certificatesv1.PodCertificateRequest](),
		same[certificatesv1beta1.PodCertificateRequest, certificatesv1beta1.PodCertificateRequest](),
		lossy[certificatesv1.PodCertificateRequestSpec, certificatesv1beta1.PodCertificateRequestSpec](), // v1 asks for less
	}
}

// other has the groups with one kind or two.
func other() []convert.Rule {
	return []convert.Rule{
		same[coordinationv1.Lease, coordinationv1.Lease](),
		same[coordinationv1.Lease, coordinationv1beta1.Lease](),
		same[coordinationv1beta1.LeaseCandidate, coordinationv1beta1.LeaseCandidate](),
		same[coordinationv1beta1.LeaseCandidate, coordinationv1alpha2.LeaseCandidate](),

		same[schedulingv1.PriorityClass, schedulingv1.PriorityClass](),
		same[schedulingv1.PriorityClass, schedulingv1beta1.PriorityClass](),
		same[schedulingv1alpha3.PodGroup, schedulingv1beta1.PodGroup](),
		same[schedulingv1alpha3.PodGroup, schedulingv1alpha3.PodGroup](),
		same[schedulingv1alpha3.Workload, schedulingv1beta1.Workload](),
		same[schedulingv1alpha3.Workload, schedulingv1alpha3.Workload](),

		same[nodev1.RuntimeClass, nodev1.RuntimeClass](),
		same[nodev1.RuntimeClass, nodev1beta1.RuntimeClass](),
		convert.Spoke(runtimeClassIn, runtimeClassOut),

		same[authenticationv1.TokenReview, authenticationv1.TokenReview](),
		same[authenticationv1.TokenReview, authenticationv1beta1.TokenReview](),
		same[authenticationv1.SelfSubjectReview, authenticationv1.SelfSubjectReview](),
		same[authenticationv1.SelfSubjectReview, authenticationv1beta1.SelfSubjectReview](),
		same[authenticationv1.SelfSubjectReview, authenticationv1alpha1.SelfSubjectReview](),
		same[authorizationv1.SubjectAccessReview, authorizationv1.SubjectAccessReview](),
		same[authorizationv1.SubjectAccessReview, authorizationv1beta1.SubjectAccessReview](),
		same[authorizationv1.LocalSubjectAccessReview, authorizationv1.LocalSubjectAccessReview](),
		same[authorizationv1.LocalSubjectAccessReview, authorizationv1beta1.LocalSubjectAccessReview](),
		same[authorizationv1.SelfSubjectAccessReview, authorizationv1.SelfSubjectAccessReview](),
		same[authorizationv1.SelfSubjectAccessReview, authorizationv1beta1.SelfSubjectAccessReview](),
		same[authorizationv1.SelfSubjectRulesReview, authorizationv1.SelfSubjectRulesReview](),
		same[authorizationv1.SelfSubjectRulesReview, authorizationv1beta1.SelfSubjectRulesReview](),

		same[admissionv1.AdmissionReview, admissionv1.AdmissionReview](),
		same[admissionv1.AdmissionReview, admissionv1beta1.AdmissionReview](),

		same[storagemigrationv1.StorageVersionMigration, storagemigrationv1.StorageVersionMigration](),
		same[storagemigrationv1.StorageVersionMigration, storagemigrationv1beta1.StorageVersionMigration](),
	}
}

// runtimeClassIn unpacks the spec that there was in v1alpha1.
func runtimeClassIn(in *nodev1alpha1.RuntimeClass, hub *nodev1.RuntimeClass) error {
	hub.Handler = in.Spec.RuntimeHandler
	if o := in.Spec.Overhead; o != nil {
		hub.Overhead = &nodev1.Overhead{PodFixed: o.PodFixed.DeepCopy()}
	}
	if s := in.Spec.Scheduling.DeepCopy(); s != nil {
		hub.Scheduling = &nodev1.Scheduling{NodeSelector: s.NodeSelector, Tolerations: s.Tolerations}
	}
	return nil
}

func runtimeClassOut(hub *nodev1.RuntimeClass, out *nodev1alpha1.RuntimeClass) error {
	out.Spec.RuntimeHandler = hub.Handler
	if o := hub.Overhead; o != nil {
		out.Spec.Overhead = &nodev1alpha1.Overhead{PodFixed: o.PodFixed.DeepCopy()}
	}
	if s := hub.Scheduling.DeepCopy(); s != nil {
		out.Spec.Scheduling = &nodev1alpha1.Scheduling{NodeSelector: s.NodeSelector, Tolerations: s.Tolerations}
	}
	return nil
}
