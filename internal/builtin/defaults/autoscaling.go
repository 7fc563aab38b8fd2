package defaults

import (
	"github.com/kapok-dev/kapok/internal/builtin/autoscaling/v2beta1"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
)

// CPUUtilization is the percentage at which pods are added where nothing is said.
const CPUUtilization int32 = 80

func autoscalingTypes(f *functions) {
	// What v1 scales by depends on annotations that only conversion understands.
	on(f, func(h *autoscalingv1.HorizontalPodAutoscaler) { set(&h.Spec.MinReplicas, 1) })
	on(f, func(s *v2beta1.HorizontalPodAutoscalerSpec) {
		set(&s.MinReplicas, 1)
		if len(s.Metrics) == 0 {
			percent := CPUUtilization
			s.Metrics = []autoscalingv1.MetricSpec{{
				Type:     autoscalingv1.ResourceMetricSourceType,
				Resource: &autoscalingv1.ResourceMetricSource{Name: corev1.ResourceCPU, TargetAverageUtilization: &percent},
			}}
		}
	})
	on(f, func(h *autoscalingv2.HorizontalPodAutoscaler) {
		set(&h.Spec.MinReplicas, 1)
		if len(h.Spec.Metrics) == 0 {
			h.Spec.Metrics = []autoscalingv2.MetricSpec{CPU(CPUUtilization)}
		}
		if b := h.Spec.Behavior; b != nil {
			b.ScaleUp = defaultScaling(b.ScaleUp, scaleUp())
			b.ScaleDown = defaultScaling(b.ScaleDown, scaleDown())
		}
	})
}

// CPU is the metric that v1 and everybody without an opinion scales by.
func CPU(utilization int32) autoscalingv2.MetricSpec {
	return autoscalingv2.MetricSpec{
		Type: autoscalingv2.ResourceMetricSourceType,
		Resource: &autoscalingv2.ResourceMetricSource{
			Name: corev1.ResourceCPU,
			Target: autoscalingv2.MetricTarget{
				Type:               autoscalingv2.UtilizationMetricType,
				AverageUtilization: &utilization,
			},
		},
	}
}

// scaleUp doubles in 15 seconds, or adds four pods if that is more.
func scaleUp() *autoscalingv2.HPAScalingRules {
	rules := &autoscalingv2.HPAScalingRules{Policies: []autoscalingv2.HPAScalingPolicy{
		{Type: autoscalingv2.PodsScalingPolicy, Value: 4, PeriodSeconds: 15},
		{Type: autoscalingv2.PercentScalingPolicy, Value: 100, PeriodSeconds: 15},
	}}
	set(&rules.SelectPolicy, autoscalingv2.MaxChangePolicySelect)
	set(&rules.StabilizationWindowSeconds, 0)
	return rules
}

// scaleDown may remove all; how long it waits is the controller's matter.
func scaleDown() *autoscalingv2.HPAScalingRules {
	rules := &autoscalingv2.HPAScalingRules{Policies: []autoscalingv2.HPAScalingPolicy{
		{Type: autoscalingv2.PercentScalingPolicy, Value: 100, PeriodSeconds: 15},
	}}
	set(&rules.SelectPolicy, autoscalingv2.MaxChangePolicySelect)
	return rules
}

func defaultScaling(rules, otherwise *autoscalingv2.HPAScalingRules) *autoscalingv2.HPAScalingRules {
	if rules == nil {
		return otherwise
	}
	if rules.SelectPolicy == nil {
		rules.SelectPolicy = otherwise.SelectPolicy
	}
	if rules.StabilizationWindowSeconds == nil {
		rules.StabilizationWindowSeconds = otherwise.StabilizationWindowSeconds
	}
	if rules.Policies == nil {
		rules.Policies = otherwise.Policies
	}
	return rules
}
