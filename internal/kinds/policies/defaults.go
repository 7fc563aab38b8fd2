package policies

import (
	"github.com/kapok-dev/kapok/internal/kinds/defaults"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	admissionv1alpha1 "k8s.io/api/admissionregistration/v1alpha1"
	admissionv1beta1 "k8s.io/api/admissionregistration/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Defaults registers the defaults of this group's types.
func Defaults(f *defaults.Functions) {
	defaults.On(f, func(w *admissionv1.ValidatingWebhook) {
		defaults.Pointer(&w.FailurePolicy, admissionv1.Fail)
		defaults.Pointer(&w.MatchPolicy, admissionv1.Equivalent)
		everything(&w.NamespaceSelector, &w.ObjectSelector)
		defaults.Pointer(&w.TimeoutSeconds, 10)
	})
	defaults.On(f, func(w *admissionv1.MutatingWebhook) {
		defaults.Pointer(&w.FailurePolicy, admissionv1.Fail)
		defaults.Pointer(&w.MatchPolicy, admissionv1.Equivalent)
		everything(&w.NamespaceSelector, &w.ObjectSelector)
		defaults.Pointer(&w.TimeoutSeconds, 10)
		defaults.Pointer(&w.ReinvocationPolicy, admissionv1.NeverReinvocationPolicy)
	})
	// All versions share the type of rules.
	defaults.On(f, func(r *admissionv1.Rule) { defaults.Pointer(&r.Scope, admissionv1.AllScopes) })
	defaults.On(f, func(r *admissionv1.ServiceReference) { defaults.Pointer(&r.Port, 443) })
	defaults.On(f, func(r *admissionv1beta1.ServiceReference) { defaults.Pointer(&r.Port, 443) })

	// Before v1, the defaults of webhooks were lenient: failures were ignored, and side effects
	// were unknown.
	defaults.On(f, func(w *admissionv1beta1.ValidatingWebhook) {
		defaults.Pointer(&w.FailurePolicy, admissionv1beta1.Ignore)
		defaults.Pointer(&w.MatchPolicy, admissionv1beta1.Exact)
		everything(&w.NamespaceSelector, &w.ObjectSelector)
		defaults.Pointer(&w.SideEffects, admissionv1beta1.SideEffectClassUnknown)
		defaults.Pointer(&w.TimeoutSeconds, 30)
		if len(w.AdmissionReviewVersions) == 0 {
			w.AdmissionReviewVersions = []string{admissionv1beta1.SchemeGroupVersion.Version}
		}
	})
	defaults.On(f, func(w *admissionv1beta1.MutatingWebhook) {
		defaults.Pointer(&w.FailurePolicy, admissionv1beta1.Ignore)
		defaults.Pointer(&w.MatchPolicy, admissionv1beta1.Exact)
		everything(&w.NamespaceSelector, &w.ObjectSelector)
		defaults.Pointer(&w.SideEffects, admissionv1beta1.SideEffectClassUnknown)
		defaults.Pointer(&w.TimeoutSeconds, 30)
		defaults.Pointer(&w.ReinvocationPolicy, admissionv1beta1.NeverReinvocationPolicy)
		if len(w.AdmissionReviewVersions) == 0 {
			w.AdmissionReviewVersions = []string{admissionv1beta1.SchemeGroupVersion.Version}
		}
	})

	defaults.On(f, func(m *admissionv1.MatchResources) {
		defaults.Pointer(&m.MatchPolicy, admissionv1.Equivalent)
		everything(&m.NamespaceSelector, &m.ObjectSelector)
	})
	defaults.On(f, func(m *admissionv1beta1.MatchResources) {
		defaults.Pointer(&m.MatchPolicy, admissionv1beta1.Equivalent)
		everything(&m.NamespaceSelector, &m.ObjectSelector)
	})
	defaults.On(f, func(m *admissionv1alpha1.MatchResources) {
		defaults.Pointer(&m.MatchPolicy, admissionv1alpha1.Equivalent)
		everything(&m.NamespaceSelector, &m.ObjectSelector)
	})
	defaults.On(f, func(r *admissionv1alpha1.ParamRef) {
		defaults.Pointer(&r.ParameterNotFoundAction, admissionv1alpha1.DenyAction)
	})
	defaults.On(f, func(p *admissionv1.ValidatingAdmissionPolicySpec) {
		defaults.Pointer(&p.FailurePolicy, admissionv1.Fail)
	})
	defaults.On(f, func(p *admissionv1beta1.ValidatingAdmissionPolicySpec) {
		defaults.Pointer(&p.FailurePolicy, admissionv1beta1.Fail)
	})
	defaults.On(f, func(p *admissionv1alpha1.ValidatingAdmissionPolicySpec) {
		defaults.Pointer(&p.FailurePolicy, admissionv1alpha1.Fail)
	})
	defaults.On(f, func(p *admissionv1.MutatingAdmissionPolicySpec) { defaults.Pointer(&p.FailurePolicy, admissionv1.Fail) })
	defaults.On(f, func(p *admissionv1beta1.MutatingAdmissionPolicySpec) {
		defaults.Pointer(&p.FailurePolicy, admissionv1beta1.Fail)
	})
	defaults.On(f, func(p *admissionv1alpha1.MutatingAdmissionPolicySpec) {
		defaults.Pointer(&p.FailurePolicy, admissionv1alpha1.Fail)
	})
}

// everything sets a missing selector to one that selects all.
func everything(selectors ...**metav1.LabelSelector) {
	for _, s := range selectors {
		defaults.Pointer(s, metav1.LabelSelector{})
	}
}
