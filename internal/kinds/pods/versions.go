package pods

import (
	"github.com/kapok-dev/kapok/convert"
	"github.com/kapok-dev/kapok/internal/kinds/kind"

	nodev1 "k8s.io/api/node/v1"
	nodev1alpha1 "k8s.io/api/node/v1alpha1"
	nodev1beta1 "k8s.io/api/node/v1beta1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
)

// Conversions are the conversions of this group's types.
func Conversions() []convert.Rule {
	return append([]convert.Rule{
		kind.Same[schedulingv1.PriorityClass, schedulingv1.PriorityClass](),
		kind.Same[schedulingv1.PriorityClass, schedulingv1beta1.PriorityClass](),
		kind.Same[schedulingv1alpha3.PodGroup, schedulingv1beta1.PodGroup](),
		kind.Same[schedulingv1alpha3.PodGroup, schedulingv1alpha3.PodGroup](),
		kind.Same[schedulingv1alpha3.Workload, schedulingv1beta1.Workload](),
		kind.Same[schedulingv1alpha3.Workload, schedulingv1alpha3.Workload](),
		kind.Same[nodev1.RuntimeClass, nodev1.RuntimeClass](),
		kind.Same[nodev1.RuntimeClass, nodev1beta1.RuntimeClass](),
		convert.Spoke(runtimeClassIn, runtimeClassOut),
	}, policy()...)
}

// runtimeClassIn converts the spec that runtime classes had in v1alpha1.
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
