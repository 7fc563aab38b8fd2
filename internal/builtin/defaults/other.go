package defaults

import (
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
)

// otherTypes are those of groups with one default each.
func otherTypes(f *functions) {
	whole(f, apiextensionsv1.SetObjectDefaults_CustomResourceDefinition)
	whole(f, apiextensionsv1beta1.SetObjectDefaults_CustomResourceDefinition)
	on(f, func(c *schedulingv1.PriorityClass) { set(&c.PreemptionPolicy, corev1.PreemptLowerPriority) })
	on(f, func(c *schedulingv1beta1.PriorityClass) { set(&c.PreemptionPolicy, corev1.PreemptLowerPriority) })
	on(f, func(s *schedulingv1beta1.PodGroupSpec) {
		set(&s.DisruptionMode, schedulingv1beta1.DisruptionMode{Single: &schedulingv1beta1.SingleDisruptionMode{}})
	})
	on(f, func(s *schedulingv1alpha3.PodGroupSpec) {
		set(&s.DisruptionMode, schedulingv1alpha3.DisruptionMode{Single: &schedulingv1alpha3.SingleDisruptionMode{}})
	})
	on(f, func(s *schedulingv1alpha3.CompositePodGroupSpec) {
		set(&s.DisruptionMode, schedulingv1alpha3.CompositeDisruptionMode{Single: &schedulingv1alpha3.SingleCompositeDisruptionMode{}})
	})
	on(f, func(s *authenticationv1.TokenRequestSpec) { set(&s.ExpirationSeconds, 3600) })
}
