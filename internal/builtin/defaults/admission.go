package defaults

import (
	admissionv1 "k8s.io/api/admissionregistration/v1"
	admissionv1alpha1 "k8s.io/api/admissionregistration/v1alpha1"
	admissionv1beta1 "k8s.io/api/admissionregistration/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func admissionTypes(f *functions) {
	on(f, func(w *admissionv1.ValidatingWebhook) {
		set(&w.FailurePolicy, admissionv1.Fail)
		set(&w.MatchPolicy, admissionv1.Equivalent)
		everything(&w.NamespaceSelector, &w.ObjectSelector)
		set(&w.TimeoutSeconds, 10)
	})
	on(f, func(w *admissionv1.MutatingWebhook) {
		set(&w.FailurePolicy, admissionv1.Fail)
		set(&w.MatchPolicy, admissionv1.Equivalent)
		everything(&w.NamespaceSelector, &w.ObjectSelector)
		set(&w.TimeoutSeconds, 10)
		set(&w.ReinvocationPolicy, admissionv1.NeverReinvocationPolicy)
	})
	// Rules are the same type in all versions.
	on(f, func(r *admissionv1.Rule) { set(&r.Scope, admissionv1.AllScopes) })
	on(f, func(r *admissionv1.ServiceReference) { set(&r.Port, 443) })
	on(f, func(r *admissionv1beta1.ServiceReference) { set(&r.Port, 443) })

	// Before v1 webhooks were lenient: their failures did not matter, and nobody had to say much.
	on(f, func(w *admissionv1beta1.ValidatingWebhook) {
		set(&w.FailurePolicy, admissionv1beta1.Ignore)
		set(&w.MatchPolicy, admissionv1beta1.Exact)
		everything(&w.NamespaceSelector, &w.ObjectSelector)
		set(&w.SideEffects, admissionv1beta1.SideEffectClassUnknown)
		set(&w.TimeoutSeconds, 30)
		if len(w.AdmissionReviewVersions) == 0 {
			w.AdmissionReviewVersions = []string{admissionv1beta1.SchemeGroupVersion.Version}
		}
	})
	on(f, func(w *admissionv1beta1.MutatingWebhook) {
		set(&w.FailurePolicy, admissionv1beta1.Ignore)
		set(&w.MatchPolicy, admissionv1beta1.Exact)
		everything(&w.NamespaceSelector, &w.ObjectSelector)
		set(&w.SideEffects, admissionv1beta1.SideEffectClassUnknown)
		set(&w.TimeoutSeconds, 30)
		set(&w.ReinvocationPolicy, admissionv1beta1.NeverReinvocationPolicy)
		if len(w.AdmissionReviewVersions) == 0 {
			w.AdmissionReviewVersions = []string{admissionv1beta1.SchemeGroupVersion.Version}
		}
	})

	on(f, func(m *admissionv1.MatchResources) {
		set(&m.MatchPolicy, admissionv1.Equivalent)
		everything(&m.NamespaceSelector, &m.ObjectSelector)
	})
	on(f, func(m *admissionv1beta1.MatchResources) {
		set(&m.MatchPolicy, admissionv1beta1.Equivalent)
		everything(&m.NamespaceSelector, &m.ObjectSelector)
	})
	on(f, func(m *admissionv1alpha1.MatchResources) {
		set(&m.MatchPolicy, admissionv1alpha1.Equivalent)
		everything(&m.NamespaceSelector, &m.ObjectSelector)
	})
	on(f, func(r *admissionv1alpha1.ParamRef) { set(&r.ParameterNotFoundAction, admissionv1alpha1.DenyAction) })
	on(f, func(p *admissionv1.ValidatingAdmissionPolicySpec) { set(&p.FailurePolicy, admissionv1.Fail) })
	on(f, func(p *admissionv1beta1.ValidatingAdmissionPolicySpec) { set(&p.FailurePolicy, admissionv1beta1.Fail) })
	on(f, func(p *admissionv1alpha1.ValidatingAdmissionPolicySpec) {
		set(&p.FailurePolicy, admissionv1alpha1.Fail)
	})
	on(f, func(p *admissionv1.MutatingAdmissionPolicySpec) { set(&p.FailurePolicy, admissionv1.Fail) })
	on(f, func(p *admissionv1beta1.MutatingAdmissionPolicySpec) { set(&p.FailurePolicy, admissionv1beta1.Fail) })
	on(f, func(p *admissionv1alpha1.MutatingAdmissionPolicySpec) { set(&p.FailurePolicy, admissionv1alpha1.Fail) })
}

// everything selects all where nothing is said.
func everything(selectors ...**metav1.LabelSelector) {
	for _, s := range selectors {
		set(s, metav1.LabelSelector{})
	}
}
