package autoscaling

import (
	"slices"

	"github.com/kapok-dev/kapok/internal/kinds/pods"
	"github.com/kapok-dev/kapok/internal/kinds/rule"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateMetrics returns the errors of metrics. Scaling to zero requires one that does not come
// from the pods.
func validateMetrics(spec *autoscalingv2.HorizontalPodAutoscalerSpec, rule versionRule, path *field.Path) field.ErrorList {
	var all field.ErrorList
	outside := false
	for i := range spec.Metrics {
		m := &spec.Metrics[i]
		all = append(all, validateMetric(m, rule, path.Index(i))...)
		outside = outside || m.Type == autoscalingv2.ObjectMetricSourceType || m.Type == autoscalingv2.ExternalMetricSourceType
	}
	if spec.MinReplicas != nil && *spec.MinReplicas == 0 && !outside {
		all = append(all, field.Forbidden(path, "must specify at least one Object or External metric to support scaling to zero replicas"))
	}
	return all
}

// A metricSource is one of the sources of a metric, in the order of their validation.
type metricSource struct {
	of       autoscalingv2.MetricSourceType
	field    string
	set      bool
	validate func(path *field.Path) field.ErrorList
}

func sourcesOf(m *autoscalingv2.MetricSpec, rule versionRule) []metricSource {
	return []metricSource{
		{autoscalingv2.ObjectMetricSourceType, "object", m.Object != nil, func(p *field.Path) field.ErrorList { return validateObjectMetric(m.Object, rule, p) }},
		{autoscalingv2.ExternalMetricSourceType, "external", m.External != nil, func(p *field.Path) field.ErrorList { return validateExternalMetric(m.External, p) }},
		{autoscalingv2.PodsMetricSourceType, "pods", m.Pods != nil, func(p *field.Path) field.ErrorList { return validatePodsMetric(m.Pods, p) }},
		{autoscalingv2.ResourceMetricSourceType, "resource", m.Resource != nil, func(p *field.Path) field.ErrorList { return validateResourceMetric(m.Resource, p) }},
		{autoscalingv2.ContainerResourceMetricSourceType, "containerResource", m.ContainerResource != nil, func(p *field.Path) field.ErrorList { return validateContainerMetric(m.ContainerResource, p) }},
	}
}

// validateMetric returns the errors of the first source that is set. It must match the type and be
// the only one.
func validateMetric(m *autoscalingv2.MetricSpec, rule versionRule, path *field.Path) field.ErrorList {
	var all field.ErrorList
	sources := sourcesOf(m, rule)
	unsupported := field.NotSupported(path.Child("type"), m.Type, metricSourceTypes(sources))
	if m.Type == "" {
		all = append(all, field.Required(path.Child("type"), "must specify a metric source type"))
	}
	known := slices.ContainsFunc(sources, func(s metricSource) bool { return s.of == m.Type })
	if !known {
		all = append(all, unsupported)
	}
	present := 0
	for _, s := range sources {
		if !s.set {
			continue
		}
		if present++; present == 1 {
			all = append(all, s.validate(path.Child(s.field))...)
		}
	}
	for _, s := range sources {
		if s.of == m.Type && !s.set {
			all = append(all, field.Required(path.Child(s.field), "must populate information for the given metric source"))
		}
	}
	if !known {
		all = append(all, unsupported) // Kubernetes reports this error twice
	}
	for _, s := range sources {
		if present != 1 && s.set && s.of != m.Type {
			all = append(all, field.Forbidden(path.Child(s.field), "must populate the given metric source only"))
		}
	}
	return all
}

func metricSourceTypes(sources []metricSource) []autoscalingv2.MetricSourceType {
	var all []autoscalingv2.MetricSourceType
	for _, s := range sources {
		all = append(all, s.of)
	}
	slices.Sort(all)
	return all
}

func validateObjectMetric(m *autoscalingv2.ObjectMetricSource, rule versionRule, path *field.Path) field.ErrorList {
	all := validateTarget(&m.DescribedObject, rule, path.Child("describedObject"))
	all = append(all, validateMetricName(m.Metric.Name, path)...)
	all = append(all, validateMetricTarget(&m.Target, path.Child("target"))...)
	if m.Target.Value == nil && m.Target.AverageValue == nil {
		all = append(all, field.Required(path.Child("target", "averageValue"), "must set either a target value or averageValue"))
	}
	return all
}

func validateExternalMetric(m *autoscalingv2.ExternalMetricSource, path *field.Path) field.ErrorList {
	all := validateMetricName(m.Metric.Name, path)
	all = append(all, validateMetricTarget(&m.Target, path.Child("target"))...)
	switch value, average := m.Target.Value != nil, m.Target.AverageValue != nil; {
	case !value && !average:
		all = append(all, field.Required(path.Child("target", "averageValue"), "must set either a target value for metric or a per-pod target"))
	case value && average:
		all = append(all, field.Forbidden(path.Child("target", "value"), "may not set both a target value for metric and a per-pod target"))
	}
	return all
}

func validatePodsMetric(m *autoscalingv2.PodsMetricSource, path *field.Path) field.ErrorList {
	all := validateMetricName(m.Metric.Name, path)
	all = append(all, validateMetricTarget(&m.Target, path.Child("target"))...)
	if m.Target.AverageValue == nil {
		all = append(all, field.Required(path.Child("target", "averageValue"), "must specify a positive target averageValue"))
	}
	return all
}

func validateResourceMetric(m *autoscalingv2.ResourceMetricSource, path *field.Path) field.ErrorList {
	var all field.ErrorList
	if m.Name == "" {
		all = append(all, field.Required(path.Child("name"), "must specify a resource name"))
	}
	return append(all, validateResourceTarget(&m.Target, path.Child("target"))...)
}

func validateContainerMetric(m *autoscalingv2.ContainerResourceMetricSource, path *field.Path) field.ErrorList {
	var all field.ErrorList
	if m.Name == "" {
		all = append(all, field.Required(path.Child("name"), "must specify a resource name"))
	} else {
		all = append(all, pods.ValidateContainerResource(m.Name, path.Child("name"))...)
	}
	if m.Container == "" {
		all = append(all, field.Required(path.Child("container"), "must specify a container"))
	} else {
		all = append(all, rule.Invalid(path.Child("container"), m.Container, validation.IsDNS1123Label(m.Container))...)
	}
	return append(all, validateResourceTarget(&m.Target, path.Child("target"))...)
}

// validateResourceTarget requires either an average value or a utilization.
func validateResourceTarget(target *autoscalingv2.MetricTarget, path *field.Path) field.ErrorList {
	all := validateMetricTarget(target, path)
	switch share, amount := target.AverageUtilization != nil, target.AverageValue != nil; {
	case !share && !amount:
		all = append(all, field.Required(path.Child("averageUtilization"), "must set either a target raw value or a target utilization"))
	case share && amount:
		all = append(all, field.Forbidden(path.Child("averageValue"), "may not set both a target raw value and a target utilization"))
	}
	return all
}

func validateMetricName(name string, path *field.Path) field.ErrorList {
	return validatePathPart(name, "must specify a metric name", path.Child("metric", "name"))
}

func validateMetricTarget(target *autoscalingv2.MetricTarget, path *field.Path) field.ErrorList {
	var all field.ErrorList
	switch target.Type {
	case autoscalingv2.UtilizationMetricType, autoscalingv2.ValueMetricType, autoscalingv2.AverageValueMetricType:
	default:
		if target.Type == "" {
			all = append(all, field.Required(path.Child("type"), "must specify a metric target type"))
		}
		all = append(all, field.Invalid(path.Child("type"), target.Type, "must be either Utilization, Value, or AverageValue"))
	}
	for _, n := range []struct {
		name  string
		value *resource.Quantity
	}{{"value", target.Value}, {"averageValue", target.AverageValue}} {
		if n.value != nil && n.value.Sign() != 1 {
			all = append(all, field.Invalid(path.Child(n.name), n.value, "must be positive"))
		}
	}
	if n := target.AverageUtilization; n != nil && *n < 1 {
		all = append(all, field.Invalid(path.Child("averageUtilization"), n, "must be greater than 0"))
	}
	return all
}
