package podautoscaler

import (
	"context"
	"errors"
	"fmt"
	"math"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// A measurement reads the metrics of one autoscaler.
type measurement struct {
	*metrics
	calculation
	namespace string
	selector  labels.Selector // of the pods of the target
}

// A measured is the result of one metric.
type measured struct {
	replicas int32
	name     string // in conditions and events
	status   autoscalingv2.MetricStatus
}

// A failure is that a metric asks for nothing.
type failure struct {
	reason string // of the event and the condition
	cause  error  // in the event and the condition
	err    error  // with a description of the measurement
}

// of reads a metric, and calculates the replicas that it asks for.
func (m *measurement) of(ctx context.Context, spec *autoscalingv2.MetricSpec) (*measured, *failure) {
	var got *measured
	var err error
	fails := func(reason, what string) (*measured, *failure) {
		if err != nil {
			return nil, &failure{reason: reason, cause: err, err: fmt.Errorf("failed to get %s: %w", what, err)}
		}
		return got, nil
	}
	switch {
	case spec.Type == autoscalingv2.ResourceMetricSourceType && spec.Resource != nil:
		got, err = m.ofResource(ctx, spec.Resource)
		return fails("FailedGetResourceMetric", fmt.Sprintf("%s resource metric value", spec.Resource.Name))
	case spec.Type == autoscalingv2.ContainerResourceMetricSourceType && spec.ContainerResource != nil:
		got, err = m.ofContainerResource(ctx, spec.ContainerResource)
		return fails("FailedGetContainerResourceMetric", spec.ContainerResource.Container+" container metric value")
	case spec.Type == autoscalingv2.PodsMetricSourceType && spec.Pods != nil:
		got, err = m.ofPodsMetric(ctx, spec.Pods)
		return fails("FailedGetPodsMetric", "pods metric value")
	case spec.Type == autoscalingv2.ObjectMetricSourceType && spec.Object != nil:
		got, err = m.ofObjectMetric(ctx, spec.Object)
		what := "object metric value"
		if spec.Object.Target.Type == autoscalingv2.AverageValueMetricType {
			what += ": failed to get " + spec.Object.Metric.Name + " object metric"
		}
		return fails("FailedGetObjectMetric", what)
	case spec.Type == autoscalingv2.ExternalMetricSourceType && spec.External != nil:
		got, err = m.ofExternalMetric(ctx, spec.External)
		name := spec.External.Metric.Name
		what := name + " external metric value: failed to get external metric " + name
		if spec.External.Target.AverageValue != nil {
			what = name + " external metric value: failed to get " + name + " external metric"
		}
		return fails("FailedGetExternalMetric", what)
	}
	err = specError{fmt.Errorf("unknown metric source type %q", string(spec.Type))}
	return nil, &failure{reason: "InvalidMetricSourceType", cause: err, err: err}
}

func (m *measurement) ofResource(ctx context.Context, spec *autoscalingv2.ResourceMetricSource) (*measured, error) {
	got, current, err := m.resourceOfPods(ctx, spec.Name, "", &spec.Target)
	if err != nil {
		return nil, err
	}
	got.status = autoscalingv2.MetricStatus{
		Type:     autoscalingv2.ResourceMetricSourceType,
		Resource: &autoscalingv2.ResourceMetricStatus{Name: spec.Name, Current: current},
	}
	return got, nil
}

func (m *measurement) ofContainerResource(ctx context.Context, spec *autoscalingv2.ContainerResourceMetricSource) (*measured, error) {
	got, current, err := m.resourceOfPods(ctx, spec.Name, spec.Container, &spec.Target)
	if err != nil {
		return nil, err
	}
	got.status = autoscalingv2.MetricStatus{
		Type:              autoscalingv2.ContainerResourceMetricSourceType,
		ContainerResource: &autoscalingv2.ContainerResourceMetricStatus{Name: spec.Name, Container: spec.Container, Current: current},
	}
	return got, nil
}

// resourceOfPods calculates with the resource usage of pods.
func (m *measurement) resourceOfPods(ctx context.Context, of corev1.ResourceName, container string, target *autoscalingv2.MetricTarget) (*measured, autoscalingv2.MetricValueStatus, error) {
	current := autoscalingv2.MetricValueStatus{}
	wanted := "usage"
	if target.AverageValue == nil {
		if target.AverageUtilization == nil {
			return nil, current, errors.New("invalid resource metric source: neither an average utilization target nor an average value (usage) target was set")
		}
		wanted = "utilization"
	}
	failed := func(err error) (*measured, autoscalingv2.MetricValueStatus, error) {
		return nil, current, fmt.Errorf("failed to get %s %s: %w", of, wanted, err)
	}
	s, err := m.metrics.ofPods(ctx, of, m.namespace, m.selector, container)
	if err != nil {
		return failed(fmt.Errorf("unable to get metrics for resource %s: %w", of, err))
	}
	var p proposal
	name := fmt.Sprintf("%s resource", of)
	if target.AverageValue != nil {
		p, err = m.byAverage(s, of, target.AverageValue.MilliValue())
	} else {
		p, err = m.byUtilization(s, of, container, *target.AverageUtilization)
		current.AverageUtilization = &p.utilization
		if container != "" {
			name = fmt.Sprintf("%s container resource", of)
		}
		name += " utilization (percentage of request)"
	}
	if err != nil {
		return failed(err)
	}
	format := resource.DecimalSI
	if of == corev1.ResourceMemory {
		format = resource.BinarySI // as metrics-server
	}
	current.AverageValue = resource.NewMilliQuantity(p.usage, format)
	return &measured{replicas: p.replicas, name: name}, current, nil
}

func (m *measurement) ofPodsMetric(ctx context.Context, spec *autoscalingv2.PodsMetricSource) (*measured, error) {
	selector, err := metav1.LabelSelectorAsSelector(spec.Metric.Selector)
	if err != nil {
		return nil, err
	}
	s, err := m.ofEach(ctx, spec.Metric.Name, m.namespace, m.selector, selector)
	if err != nil {
		return nil, fmt.Errorf("unable to get metric %s: %w", spec.Metric.Name, err)
	}
	if spec.Target.AverageValue == nil {
		return nil, errors.New("invalid pods metric source: no average value target was set")
	}
	p, err := m.byAverage(s, "", spec.Target.AverageValue.MilliValue())
	if err != nil {
		return nil, err
	}
	return &measured{
		replicas: p.replicas, name: "pods metric " + spec.Metric.Name,
		status: autoscalingv2.MetricStatus{Type: autoscalingv2.PodsMetricSourceType, Pods: &autoscalingv2.PodsMetricStatus{
			Metric:  spec.Metric,
			Current: autoscalingv2.MetricValueStatus{AverageValue: resource.NewMilliQuantity(p.usage, resource.DecimalSI)},
		}},
	}, nil
}

func (m *measurement) ofObjectMetric(ctx context.Context, spec *autoscalingv2.ObjectMetricSource) (*measured, error) {
	selector, err := metav1.LabelSelectorAsSelector(spec.Metric.Selector)
	if err != nil {
		return nil, err
	}
	of, t := &spec.DescribedObject, &spec.Target
	total := t.Type == autoscalingv2.ValueMetricType && t.Value != nil
	if !total && (t.Type != autoscalingv2.AverageValueMetricType || t.AverageValue == nil) {
		return nil, errors.New("invalid object metric source: neither a value target nor an average value target was set")
	}
	usage, err := m.ofObject(ctx, spec.Metric.Name, m.namespace, of, selector)
	if err != nil {
		err = fmt.Errorf("unable to get metric %s on %s %s/%s: %w", spec.Metric.Name, of.Kind, m.namespace, of.Name, err)
		return nil, err
	}
	got := &measured{}
	var current autoscalingv2.MetricValueStatus
	if total {
		p, err := m.byTotal(usage, t.Value.MilliValue())
		if err != nil {
			return nil, err
		}
		got.replicas, got.name = p.replicas, fmt.Sprintf("%s metric %s", of.Kind, spec.Metric.Name)
		current.Value = resource.NewMilliQuantity(p.usage, resource.DecimalSI)
	} else {
		p := m.perPod(usage, t.AverageValue.MilliValue())
		got.replicas, got.name = p.replicas, nameOf(&spec.Metric)
		current.AverageValue = resource.NewMilliQuantity(p.usage, resource.DecimalSI)
	}
	got.status = autoscalingv2.MetricStatus{
		Type:   autoscalingv2.ObjectMetricSourceType,
		Object: &autoscalingv2.ObjectMetricStatus{DescribedObject: *of, Metric: spec.Metric, Current: current},
	}
	return got, nil
}

func (m *measurement) ofExternalMetric(ctx context.Context, spec *autoscalingv2.ExternalMetricSource) (*measured, error) {
	t, name := &spec.Target, spec.Metric.Name
	if t.AverageValue == nil && t.Value == nil {
		return nil, errors.New("invalid external metric source: neither a value target nor an average value target was set")
	}
	selector, err := metav1.LabelSelectorAsSelector(spec.Metric.Selector)
	if err != nil {
		return nil, err
	}
	values, err := m.ofOutside(ctx, name, m.namespace, selector)
	if err != nil {
		return nil, fmt.Errorf("unable to get external metric %s/%s/%+v: %w", m.namespace, name, spec.Metric.Selector, err)
	}
	var usage int64
	for _, v := range values {
		usage = add(usage, v)
	}
	got := &measured{name: nameOf(&spec.Metric)}
	var current autoscalingv2.MetricValueStatus
	if t.AverageValue != nil {
		if usage < 0 {
			usage = math.MaxInt64 // Kubernetes takes any negative sum for one that has overflowed
		}
		p := m.perPod(usage, t.AverageValue.MilliValue())
		got.replicas, current.AverageValue = p.replicas, resource.NewMilliQuantity(p.usage, resource.DecimalSI)
	} else {
		p, err := m.byTotal(usage, t.Value.MilliValue())
		if err != nil {
			return nil, err
		}
		got.replicas, current.Value = p.replicas, resource.NewMilliQuantity(p.usage, resource.DecimalSI)
	}
	got.status = autoscalingv2.MetricStatus{
		Type:     autoscalingv2.ExternalMetricSourceType,
		External: &autoscalingv2.ExternalMetricStatus{Metric: spec.Metric, Current: current},
	}
	return got, nil
}

// nameOf returns the name of a metric in conditions and events. Kubernetes also names so the metric
// of an object for which an average is wanted.
func nameOf(m *autoscalingv2.MetricIdentifier) string {
	return fmt.Sprintf("external metric %s(%+v)", m.Name, m.Selector)
}
