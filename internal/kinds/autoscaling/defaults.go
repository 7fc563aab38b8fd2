package autoscaling

import (
	"github.com/kapok-dev/kapok/internal/kinds/autoscaling/v2beta1"
	"github.com/kapok-dev/kapok/internal/kinds/defaults"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
)

// cpuUtilization is the default target in percent.
const cpuUtilization int32 = 80

// Defaults registers the defaults of this group's types.
func Defaults(f *defaults.Functions) {
	// The metrics of v1 are in annotations that only the conversion decodes.
	defaults.On(f, func(h *autoscalingv1.HorizontalPodAutoscaler) { defaults.Pointer(&h.Spec.MinReplicas, 1) })
	defaults.On(f, func(s *v2beta1.HorizontalPodAutoscalerSpec) {
		defaults.Pointer(&s.MinReplicas, 1)
		if len(s.Metrics) == 0 {
			percent := cpuUtilization
			s.Metrics = []autoscalingv1.MetricSpec{{
				Type:     autoscalingv1.ResourceMetricSourceType,
				Resource: &autoscalingv1.ResourceMetricSource{Name: corev1.ResourceCPU, TargetAverageUtilization: &percent},
			}}
		}
	})
	defaults.On(f, func(h *autoscalingv2.HorizontalPodAutoscaler) {
		defaults.Pointer(&h.Spec.MinReplicas, 1)
		if len(h.Spec.Metrics) == 0 {
			h.Spec.Metrics = []autoscalingv2.MetricSpec{defaultCPU(cpuUtilization)}
		}
		if b := h.Spec.Behavior; b != nil {
			b.ScaleUp = defaultScaling(b.ScaleUp, scaleUp())
			b.ScaleDown = defaultScaling(b.ScaleDown, scaleDown())
		}
	})
}

// defaultCPU is the default metric.
func defaultCPU(utilization int32) autoscalingv2.MetricSpec {
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

// scaleUp is the default policy: double the pods, or add four if that is more, in 15 seconds.
func scaleUp() *autoscalingv2.HPAScalingRules {
	rules := &autoscalingv2.HPAScalingRules{Policies: []autoscalingv2.HPAScalingPolicy{
		{Type: autoscalingv2.PodsScalingPolicy, Value: 4, PeriodSeconds: 15},
		{Type: autoscalingv2.PercentScalingPolicy, Value: 100, PeriodSeconds: 15},
	}}
	defaults.Pointer(&rules.SelectPolicy, autoscalingv2.MaxChangePolicySelect)
	defaults.Pointer(&rules.StabilizationWindowSeconds, 0)
	return rules
}

// scaleDown is the default policy: remove any number of pods. The controller sets the delay.
func scaleDown() *autoscalingv2.HPAScalingRules {
	rules := &autoscalingv2.HPAScalingRules{Policies: []autoscalingv2.HPAScalingPolicy{
		{Type: autoscalingv2.PercentScalingPolicy, Value: 100, PeriodSeconds: 15},
	}}
	defaults.Pointer(&rules.SelectPolicy, autoscalingv2.MaxChangePolicySelect)
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
