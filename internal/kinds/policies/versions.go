package policies

import (
	"github.com/kapok-dev/kapok/convert"
	"github.com/kapok-dev/kapok/internal/kinds/kind"

	admissionv1 "k8s.io/api/admission/v1"
	admissionv1beta1 "k8s.io/api/admission/v1beta1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	admissionregistrationv1alpha1 "k8s.io/api/admissionregistration/v1alpha1"
	admissionregistrationv1beta1 "k8s.io/api/admissionregistration/v1beta1"
)

// Conversions are the conversions of this group's types.
func Conversions() []convert.Rule {
	return []convert.Rule{
		kind.Same[admissionregistrationv1.ValidatingWebhookConfiguration, admissionregistrationv1.ValidatingWebhookConfiguration](),
		kind.Same[admissionregistrationv1.ValidatingWebhookConfiguration, admissionregistrationv1beta1.ValidatingWebhookConfiguration](),
		kind.Same[admissionregistrationv1.MutatingWebhookConfiguration, admissionregistrationv1.MutatingWebhookConfiguration](),
		kind.Same[admissionregistrationv1.MutatingWebhookConfiguration, admissionregistrationv1beta1.MutatingWebhookConfiguration](),
		kind.Same[admissionregistrationv1.ValidatingAdmissionPolicy, admissionregistrationv1.ValidatingAdmissionPolicy](),
		kind.Same[admissionregistrationv1.ValidatingAdmissionPolicy, admissionregistrationv1beta1.ValidatingAdmissionPolicy](),
		kind.Same[admissionregistrationv1.ValidatingAdmissionPolicy, admissionregistrationv1alpha1.ValidatingAdmissionPolicy](),
		kind.Same[admissionregistrationv1.ValidatingAdmissionPolicyBinding, admissionregistrationv1.ValidatingAdmissionPolicyBinding](),
		kind.Same[admissionregistrationv1.ValidatingAdmissionPolicyBinding, admissionregistrationv1beta1.ValidatingAdmissionPolicyBinding](),
		kind.Same[admissionregistrationv1.ValidatingAdmissionPolicyBinding, admissionregistrationv1alpha1.ValidatingAdmissionPolicyBinding](),
		kind.Same[admissionregistrationv1.MutatingAdmissionPolicy, admissionregistrationv1.MutatingAdmissionPolicy](),
		kind.Same[admissionregistrationv1.MutatingAdmissionPolicy, admissionregistrationv1beta1.MutatingAdmissionPolicy](),
		kind.Same[admissionregistrationv1.MutatingAdmissionPolicy, admissionregistrationv1alpha1.MutatingAdmissionPolicy](),
		kind.Same[admissionregistrationv1.MutatingAdmissionPolicyBinding, admissionregistrationv1.MutatingAdmissionPolicyBinding](),
		kind.Same[admissionregistrationv1.MutatingAdmissionPolicyBinding, admissionregistrationv1beta1.MutatingAdmissionPolicyBinding](),
		kind.Same[admissionregistrationv1.MutatingAdmissionPolicyBinding, admissionregistrationv1alpha1.MutatingAdmissionPolicyBinding](),

		kind.Same[admissionv1.AdmissionReview, admissionv1.AdmissionReview](),
		kind.Same[admissionv1.AdmissionReview, admissionv1beta1.AdmissionReview](),
	}
}
