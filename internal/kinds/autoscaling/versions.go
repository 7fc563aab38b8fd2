package autoscaling

import (
	"encoding/json"
	"slices"

	"github.com/kapok-dev/kapok/convert"
	"github.com/kapok-dev/kapok/internal/kinds/autoscaling/v2beta1"
	"github.com/kapok-dev/kapok/internal/kinds/kind"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The annotations in which old versions keep fields that they lack.
const (
	metricsAnnotation        = "autoscaling.alpha.kubernetes.io/metrics"
	currentMetricsAnnotation = "autoscaling.alpha.kubernetes.io/current-metrics"
	conditionsAnnotation     = "autoscaling.alpha.kubernetes.io/conditions"
	behaviorAnnotation       = "autoscaling.alpha.kubernetes.io/behavior"
	toleranceDownAnnotation  = "autoscaling.alpha.kubernetes.io/scale-down-tolerance"
	toleranceUpAnnotation    = "autoscaling.alpha.kubernetes.io/scale-up-tolerance"
)

// Conversions are the conversions of this group's types, with v2 as the hub. v1 has one metric
// only; the others are kept in annotations, in the form of v2beta1.
func Conversions() []convert.Rule {
	return []convert.Rule{
		convert.Spoke(nil, func(_, out *autoscalingv2.HorizontalPodAutoscaler) error {
			dropKeptAnnotations(&out.ObjectMeta)
			return nil
		}),
		convert.Spoke(v1In, v1Out),
		kind.Lossy[autoscalingv1.HorizontalPodAutoscalerSpec, autoscalingv2.HorizontalPodAutoscalerSpec](),
		kind.Lossy[autoscalingv1.HorizontalPodAutoscalerStatus, autoscalingv2.HorizontalPodAutoscalerStatus](),
		convert.Spoke(v2beta1In, v2beta1Out),
		kind.Lossy[v2beta1.HorizontalPodAutoscalerSpec, autoscalingv2.HorizontalPodAutoscalerSpec](), // v2beta1 has no behavior
		metricRules(),
	}
}

// autoscalerSpecAnnotations returns the annotations that stand for fields of the spec.
func autoscalerSpecAnnotations() []string {
	return []string{metricsAnnotation, behaviorAnnotation, toleranceDownAnnotation, toleranceUpAnnotation}
}

// autoscalerStatusAnnotations returns the annotations that stand for fields of the status.
func autoscalerStatusAnnotations() []string {
	return []string{currentMetricsAnnotation, conditionsAnnotation}
}

// dropKeptAnnotations removes the annotations that have become fields.
func dropKeptAnnotations(meta *metav1.ObjectMeta) {
	for _, key := range slices.Concat(autoscalerSpecAnnotations(), autoscalerStatusAnnotations()) {
		delete(meta.Annotations, key)
	}
}

// keep writes an annotation.
func keep(meta *metav1.ObjectMeta, key string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	if meta.Annotations == nil {
		meta.Annotations = map[string]string{}
	}
	meta.Annotations[key] = string(text)
	return nil
}

// kept decodes an annotation; ok is false if it is missing or invalid.
func kept[T any](annotations map[string]string, key string) (value T, ok bool) {
	text, ok := annotations[key]
	if !ok || json.Unmarshal([]byte(text), &value) != nil {
		return value, false
	}
	return value, true
}

func v1In(in *autoscalingv1.HorizontalPodAutoscaler, hub *autoscalingv2.HorizontalPodAutoscaler) error {
	if others, ok := kept[[]autoscalingv1.MetricSpec](in.Annotations, metricsAnnotation); ok {
		hub.Spec.Metrics = make([]autoscalingv2.MetricSpec, len(others))
		for i := range others {
			metricIn(&others[i], &hub.Spec.Metrics[i])
		}
	}
	if percent := in.Spec.TargetCPUUtilizationPercentage; percent != nil {
		hub.Spec.Metrics = append(hub.Spec.Metrics, defaultCPU(*percent))
	}
	if len(hub.Spec.Metrics) == 0 {
		hub.Spec.Metrics = []autoscalingv2.MetricSpec{defaultCPU(cpuUtilization)}
	}
	if percent := in.Status.CurrentCPUUtilizationPercentage; percent != nil {
		current := *percent
		hub.Status.CurrentMetrics = []autoscalingv2.MetricStatus{{
			Type: autoscalingv2.ResourceMetricSourceType,
			Resource: &autoscalingv2.ResourceMetricStatus{
				Name: corev1.ResourceCPU, Current: autoscalingv2.MetricValueStatus{AverageUtilization: &current},
			},
		}}
	}
	if current, ok := kept[[]autoscalingv1.MetricStatus](in.Annotations, currentMetricsAnnotation); ok {
		hub.Status.CurrentMetrics = make([]autoscalingv2.MetricStatus, len(current))
		for i := range current {
			statusIn(&current[i], &hub.Status.CurrentMetrics[i])
		}
	}
	if conditions, ok := kept[[]autoscalingv2.HorizontalPodAutoscalerCondition](in.Annotations, conditionsAnnotation); ok {
		hub.Status.Conditions = conditions
	}
	behaviorIn(in.Annotations, hub)
	dropKeptAnnotations(&hub.ObjectMeta)
	return nil
}

func v1Out(hub *autoscalingv2.HorizontalPodAutoscaler, out *autoscalingv1.HorizontalPodAutoscaler) error {
	dropKeptAnnotations(&out.ObjectMeta)
	others := []autoscalingv1.MetricSpec{}
	for i := range hub.Spec.Metrics {
		metric := &hub.Spec.Metrics[i]
		if !isCPU(metric) {
			others = append(others, autoscalingv1.MetricSpec{})
			metricOut(metric, &others[len(others)-1])
		} else if out.Spec.TargetCPUUtilizationPercentage == nil {
			percent := *metric.Resource.Target.AverageUtilization
			out.Spec.TargetCPUUtilizationPercentage = &percent
		}
	}
	if len(others) > 0 {
		if err := keep(&out.ObjectMeta, metricsAnnotation, others); err != nil {
			return err
		}
	}
	// The annotation has more details of the CPU metric than the field, so both have it.
	current := make([]autoscalingv1.MetricStatus, len(hub.Status.CurrentMetrics))
	for i := range hub.Status.CurrentMetrics {
		status := &hub.Status.CurrentMetrics[i]
		statusOut(status, &current[i])
		if r := status.Resource; status.Type == autoscalingv2.ResourceMetricSourceType && r != nil && r.Name == corev1.ResourceCPU && r.Current.AverageUtilization != nil {
			percent := *r.Current.AverageUtilization
			out.Status.CurrentCPUUtilizationPercentage = &percent
		}
	}
	if len(current) > 0 {
		if err := keep(&out.ObjectMeta, currentMetricsAnnotation, current); err != nil {
			return err
		}
	}
	if len(hub.Status.Conditions) > 0 {
		if err := keep(&out.ObjectMeta, conditionsAnnotation, hub.Status.Conditions); err != nil {
			return err
		}
	}
	return behaviorOut(hub, &out.ObjectMeta)
}

func v2beta1In(in *v2beta1.HorizontalPodAutoscaler, hub *autoscalingv2.HorizontalPodAutoscaler) error {
	behaviorIn(in.Annotations, hub)
	dropKeptAnnotations(&hub.ObjectMeta)
	return nil
}

func v2beta1Out(hub *autoscalingv2.HorizontalPodAutoscaler, out *v2beta1.HorizontalPodAutoscaler) error {
	dropKeptAnnotations(&out.ObjectMeta)
	return behaviorOut(hub, &out.ObjectMeta)
}

func isCPU(m *autoscalingv2.MetricSpec) bool {
	return m.Type == autoscalingv2.ResourceMetricSourceType && m.Resource != nil && m.Resource.Name == corev1.ResourceCPU &&
		m.Resource.Target.AverageUtilization != nil
}

// The annotation of behavior has the names of Go fields, as in its first version.
type (
	keptBehavior struct{ ScaleUp, ScaleDown *keptRules }
	keptRules    struct {
		StabilizationWindowSeconds *int32
		SelectPolicy               *autoscalingv2.ScalingPolicySelect
		Policies                   []keptPolicy
		Tolerance                  *resource.Quantity
	}
	keptPolicy struct {
		Type          autoscalingv2.HPAScalingPolicyType
		Value         int32
		PeriodSeconds int32
	}
)

func behaviorIn(annotations map[string]string, hub *autoscalingv2.HorizontalPodAutoscaler) {
	if b, ok := kept[keptBehavior](annotations, behaviorAnnotation); ok && b != (keptBehavior{}) {
		hub.Spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: b.ScaleUp.rules(), ScaleDown: b.ScaleDown.rules()}
	}
}

func behaviorOut(hub *autoscalingv2.HorizontalPodAutoscaler, meta *metav1.ObjectMeta) error {
	b := hub.Spec.Behavior
	if b == nil {
		return nil
	}
	return keep(meta, behaviorAnnotation, keptBehavior{ScaleUp: keepRules(b.ScaleUp), ScaleDown: keepRules(b.ScaleDown)})
}

func (k *keptRules) rules() *autoscalingv2.HPAScalingRules {
	if k == nil {
		return nil
	}
	rules := &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: k.StabilizationWindowSeconds, SelectPolicy: k.SelectPolicy, Tolerance: k.Tolerance}
	for _, p := range k.Policies {
		rules.Policies = append(rules.Policies, autoscalingv2.HPAScalingPolicy{Type: p.Type, Value: p.Value, PeriodSeconds: p.PeriodSeconds})
	}
	return rules
}

func keepRules(r *autoscalingv2.HPAScalingRules) *keptRules {
	if r == nil {
		return nil
	}
	kept := &keptRules{StabilizationWindowSeconds: r.StabilizationWindowSeconds, SelectPolicy: r.SelectPolicy, Tolerance: r.Tolerance}
	if r.Policies != nil {
		kept.Policies = slices.Grow([]keptPolicy{}, len(r.Policies))
	}
	for _, p := range r.Policies {
		kept.Policies = append(kept.Policies, keptPolicy{Type: p.Type, Value: p.Value, PeriodSeconds: p.PeriodSeconds})
	}
	return kept
}
