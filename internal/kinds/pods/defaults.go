package pods

import (
	"github.com/kapok-dev/kapok/internal/kinds/defaults"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
)

// Defaults registers the defaults of this group's types.
func Defaults(f *defaults.Functions) {
	defaults.Whole(f, defaultPod)
	defaults.Whole(f, DefaultPodSpec)
	defaults.Whole(f, func(list *corev1.ResourceList) { roundUp(*list) })
	defaults.On(f, func(c *schedulingv1.PriorityClass) {
		defaults.Pointer(&c.PreemptionPolicy, corev1.PreemptLowerPriority)
	})
	defaults.On(f, func(c *schedulingv1beta1.PriorityClass) {
		defaults.Pointer(&c.PreemptionPolicy, corev1.PreemptLowerPriority)
	})
	defaults.On(f, func(s *schedulingv1beta1.PodGroupSpec) {
		defaults.Pointer(&s.DisruptionMode, schedulingv1beta1.DisruptionMode{Single: &schedulingv1beta1.SingleDisruptionMode{}})
	})
	defaults.On(f, func(s *schedulingv1alpha3.PodGroupSpec) {
		defaults.Pointer(&s.DisruptionMode, schedulingv1alpha3.DisruptionMode{Single: &schedulingv1alpha3.SingleDisruptionMode{}})
	})
	defaults.On(f, func(s *schedulingv1alpha3.CompositePodGroupSpec) {
		defaults.Pointer(&s.DisruptionMode, schedulingv1alpha3.CompositeDisruptionMode{Single: &schedulingv1alpha3.SingleCompositeDisruptionMode{}})
	})
}
