package autoscaling

import (
	"github.com/kapok-dev/kapok/convert"
	"github.com/kapok-dev/kapok/internal/kinds/kind"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"
)

// In v2beta1, a metric has its name, selector and values side by side; v2 has a metric and a
// target.

// metricRules returns the conversions of the metrics in v2beta1 objects.
func metricRules() convert.Rule {
	return convert.Rules(
		kind.Both(plain(metricIn), plain(metricOut)),
		kind.Both(plain(statusIn), plain(statusOut)),
	)
}

// plain returns a conversion that cannot fail.
func plain[A, B any](convert func(*A, *B)) func(*A, *B) error {
	return func(in *A, out *B) error {
		convert(in, out)
		return nil
	}
}

func metricIn(in *autoscalingv1.MetricSpec, hub *autoscalingv2.MetricSpec) {
	*hub = autoscalingv2.MetricSpec{Type: autoscalingv2.MetricSourceType(in.Type)}
	if m := in.Object.DeepCopy(); m != nil {
		target := autoscalingv2.MetricTarget{Type: autoscalingv2.ValueMetricType, Value: &m.TargetValue}
		if m.AverageValue != nil {
			target = autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: m.AverageValue}
			if !m.TargetValue.IsZero() { // v2beta1 has no other way to express a missing value
				target.Value = &m.TargetValue
			}
		}
		hub.Object = &autoscalingv2.ObjectMetricSource{
			DescribedObject: autoscalingv2.CrossVersionObjectReference(m.Target),
			Metric:          autoscalingv2.MetricIdentifier{Name: m.MetricName, Selector: m.Selector},
			Target:          target,
		}
	}
	if m := in.Pods.DeepCopy(); m != nil {
		hub.Pods = &autoscalingv2.PodsMetricSource{
			Metric: autoscalingv2.MetricIdentifier{Name: m.MetricName, Selector: m.Selector},
			Target: autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: &m.TargetAverageValue},
		}
	}
	if m := in.Resource.DeepCopy(); m != nil {
		hub.Resource = &autoscalingv2.ResourceMetricSource{Name: m.Name, Target: utilization(m.TargetAverageUtilization, m.TargetAverageValue)}
	}
	if m := in.ContainerResource.DeepCopy(); m != nil {
		hub.ContainerResource = &autoscalingv2.ContainerResourceMetricSource{
			Name: m.Name, Container: m.Container, Target: utilization(m.TargetAverageUtilization, m.TargetAverageValue),
		}
	}
	if m := in.External.DeepCopy(); m != nil {
		target := autoscalingv2.MetricTarget{Type: autoscalingv2.ValueMetricType, Value: m.TargetValue, AverageValue: m.TargetAverageValue}
		if m.TargetValue == nil {
			target.Type = autoscalingv2.AverageValueMetricType
		}
		hub.External = &autoscalingv2.ExternalMetricSource{
			Metric: autoscalingv2.MetricIdentifier{Name: m.MetricName, Selector: m.MetricSelector},
			Target: target,
		}
	}
}

func utilization(percent *int32, value *resource.Quantity) autoscalingv2.MetricTarget {
	target := autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: percent, AverageValue: value}
	if percent == nil {
		target.Type = autoscalingv2.AverageValueMetricType
	}
	return target
}

func metricOut(hub *autoscalingv2.MetricSpec, out *autoscalingv1.MetricSpec) {
	hub = hub.DeepCopy()
	*out = autoscalingv1.MetricSpec{Type: autoscalingv1.MetricSourceType(hub.Type)}
	if m := hub.Object; m != nil {
		out.Object = &autoscalingv1.ObjectMetricSource{
			Target:       autoscalingv1.CrossVersionObjectReference(m.DescribedObject),
			MetricName:   m.Metric.Name,
			Selector:     m.Metric.Selector,
			TargetValue:  kind.Value(m.Target.Value),
			AverageValue: m.Target.AverageValue,
		}
	}
	if m := hub.Pods; m != nil {
		out.Pods = &autoscalingv1.PodsMetricSource{
			MetricName: m.Metric.Name, Selector: m.Metric.Selector, TargetAverageValue: kind.Value(m.Target.AverageValue),
		}
	}
	if m := hub.Resource; m != nil {
		out.Resource = &autoscalingv1.ResourceMetricSource{
			Name: m.Name, TargetAverageUtilization: m.Target.AverageUtilization, TargetAverageValue: m.Target.AverageValue,
		}
	}
	if m := hub.ContainerResource; m != nil {
		out.ContainerResource = &autoscalingv1.ContainerResourceMetricSource{
			Name: m.Name, Container: m.Container,
			TargetAverageUtilization: m.Target.AverageUtilization, TargetAverageValue: m.Target.AverageValue,
		}
	}
	if m := hub.External; m != nil {
		out.External = &autoscalingv1.ExternalMetricSource{
			MetricName: m.Metric.Name, MetricSelector: m.Metric.Selector,
			TargetValue: m.Target.Value, TargetAverageValue: m.Target.AverageValue,
		}
	}
}

func statusIn(in *autoscalingv1.MetricStatus, hub *autoscalingv2.MetricStatus) {
	*hub = autoscalingv2.MetricStatus{Type: autoscalingv2.MetricSourceType(in.Type)}
	if m := in.Object.DeepCopy(); m != nil {
		hub.Object = &autoscalingv2.ObjectMetricStatus{
			DescribedObject: autoscalingv2.CrossVersionObjectReference(m.Target),
			Metric:          autoscalingv2.MetricIdentifier{Name: m.MetricName, Selector: m.Selector},
			Current:         autoscalingv2.MetricValueStatus{Value: &m.CurrentValue, AverageValue: m.AverageValue},
		}
	}
	if m := in.Pods.DeepCopy(); m != nil {
		hub.Pods = &autoscalingv2.PodsMetricStatus{
			Metric:  autoscalingv2.MetricIdentifier{Name: m.MetricName, Selector: m.Selector},
			Current: autoscalingv2.MetricValueStatus{AverageValue: &m.CurrentAverageValue},
		}
	}
	if m := in.Resource.DeepCopy(); m != nil {
		hub.Resource = &autoscalingv2.ResourceMetricStatus{
			Name:    m.Name,
			Current: autoscalingv2.MetricValueStatus{AverageValue: &m.CurrentAverageValue, AverageUtilization: m.CurrentAverageUtilization},
		}
	}
	if m := in.ContainerResource.DeepCopy(); m != nil {
		hub.ContainerResource = &autoscalingv2.ContainerResourceMetricStatus{
			Name: m.Name, Container: m.Container,
			Current: autoscalingv2.MetricValueStatus{AverageValue: &m.CurrentAverageValue, AverageUtilization: m.CurrentAverageUtilization},
		}
	}
	if m := in.External.DeepCopy(); m != nil {
		hub.External = &autoscalingv2.ExternalMetricStatus{
			Metric:  autoscalingv2.MetricIdentifier{Name: m.MetricName, Selector: m.MetricSelector},
			Current: autoscalingv2.MetricValueStatus{Value: &m.CurrentValue, AverageValue: m.CurrentAverageValue},
		}
	}
}

func statusOut(hub *autoscalingv2.MetricStatus, out *autoscalingv1.MetricStatus) {
	hub = hub.DeepCopy()
	*out = autoscalingv1.MetricStatus{Type: autoscalingv1.MetricSourceType(hub.Type)}
	if m := hub.Object; m != nil {
		out.Object = &autoscalingv1.ObjectMetricStatus{
			Target:       autoscalingv1.CrossVersionObjectReference(m.DescribedObject),
			MetricName:   m.Metric.Name,
			Selector:     m.Metric.Selector,
			CurrentValue: kind.Value(m.Current.Value),
			AverageValue: m.Current.AverageValue,
		}
	}
	if m := hub.Pods; m != nil {
		out.Pods = &autoscalingv1.PodsMetricStatus{
			MetricName: m.Metric.Name, Selector: m.Metric.Selector, CurrentAverageValue: kind.Value(m.Current.AverageValue),
		}
	}
	if m := hub.Resource; m != nil {
		out.Resource = &autoscalingv1.ResourceMetricStatus{
			Name: m.Name, CurrentAverageUtilization: m.Current.AverageUtilization, CurrentAverageValue: kind.Value(m.Current.AverageValue),
		}
	}
	if m := hub.ContainerResource; m != nil {
		out.ContainerResource = &autoscalingv1.ContainerResourceMetricStatus{
			Name: m.Name, Container: m.Container,
			CurrentAverageUtilization: m.Current.AverageUtilization, CurrentAverageValue: kind.Value(m.Current.AverageValue),
		}
	}
	if m := hub.External; m != nil {
		out.External = &autoscalingv1.ExternalMetricStatus{
			MetricName: m.Metric.Name, MetricSelector: m.Metric.Selector,
			CurrentValue: kind.Value(m.Current.Value), CurrentAverageValue: m.Current.AverageValue,
		}
	}
}
