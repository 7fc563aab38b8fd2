package autoscaling

import (
	"fmt"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/internal/kinds/kind"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// horizontalPodAutoscalersTable is the table of horizontal pod autoscalers.
func horizontalPodAutoscalersTable() kind.Table[*autoscalingv2.HorizontalPodAutoscaler] {
	spec := autoscalingv2.HorizontalPodAutoscalerSpec{}
	return kind.Table[*autoscalingv2.HorizontalPodAutoscaler]{Columns: []metav1.TableColumnDefinition{
		kind.NameColumn(),
		kind.FieldColumn("Reference", spec, "scaleTargetRef"),
		kind.FieldColumn("Targets", spec, "metrics"),
		kind.FieldColumn("MinPods", spec, "minReplicas"),
		kind.FieldColumn("MaxPods", spec, "maxReplicas"),
		kind.FieldColumn("Replicas", autoscalingv2.HorizontalPodAutoscalerStatus{}, "currentReplicas"),
		kind.AgeColumn(),
	}, Cells: autoscalerCells}
}

func autoscalerCells(h *autoscalingv2.HorizontalPodAutoscaler, now time.Time) []any {
	least := "<unset>"
	if h.Spec.MinReplicas != nil {
		least = fmt.Sprint(*h.Spec.MinReplicas)
	}
	return []any{
		h.Name, h.Spec.ScaleTargetRef.Kind + "/" + h.Spec.ScaleTargetRef.Name, targetsCell(h.Spec.Metrics, h.Status.CurrentMetrics),
		least, int64(h.Spec.MaxReplicas), int64(h.Status.CurrentReplicas), kind.Age(h.ObjectMeta, now),
	}
}

// shownTargets is the number of metrics that a cell shows.
const shownTargets = 2

// targetsCell returns the current and target values of metrics.
func targetsCell(specs []autoscalingv2.MetricSpec, statuses []autoscalingv2.MetricStatus) string {
	if len(specs) == 0 {
		return "<none>"
	}
	var shown []string
	for i := range specs[:min(len(specs), shownTargets)] {
		status := new(autoscalingv2.MetricStatus)
		if i < len(statuses) {
			status = &statuses[i]
		}
		shown = append(shown, target(&specs[i], status))
	}
	cell := strings.Join(shown, ", ")
	if more := len(specs) - shownTargets; more > 0 {
		cell += fmt.Sprintf(" + %d more...", more)
	}
	return cell
}

// target returns the cell of one metric. Resources are shown with their name, others as a sum or
// average.
func target(spec *autoscalingv2.MetricSpec, status *autoscalingv2.MetricStatus) string {
	current := new(autoscalingv2.MetricValueStatus)
	switch {
	case spec.Type == autoscalingv2.ExternalMetricSourceType && spec.External != nil:
		if status.External != nil {
			current = &status.External.Current
		}
		return amountTarget(&spec.External.Target, current)
	case spec.Type == autoscalingv2.ObjectMetricSourceType && spec.Object != nil:
		if status.Object != nil {
			current = &status.Object.Current
		}
		return amountTarget(&spec.Object.Target, current)
	case spec.Type == autoscalingv2.PodsMetricSourceType && spec.Pods != nil:
		if status.Pods != nil {
			current = &status.Pods.Current
		}
		return orUnknown(current.AverageValue) + "/" + quantity(spec.Pods.Target.AverageValue)
	case spec.Type == autoscalingv2.ResourceMetricSourceType && spec.Resource != nil:
		if status.Resource != nil {
			current = &status.Resource.Current
		}
		return fmt.Sprintf("%s: %s", spec.Resource.Name, resourceTarget(&spec.Resource.Target, current))
	case spec.Type == autoscalingv2.ContainerResourceMetricSourceType && spec.ContainerResource != nil:
		if status.ContainerResource != nil {
			current = &status.ContainerResource.Current
		}
		return fmt.Sprintf("%s: %s", spec.ContainerResource.Name, resourceTarget(&spec.ContainerResource.Target, current))
	}
	return "<unknown type>"
}

func amountTarget(target *autoscalingv2.MetricTarget, current *autoscalingv2.MetricValueStatus) string {
	if target.AverageValue != nil {
		return orUnknown(current.AverageValue) + "/" + target.AverageValue.String() + " (avg)"
	}
	return orUnknown(current.Value) + "/" + quantity(target.Value)
}

func resourceTarget(target *autoscalingv2.MetricTarget, current *autoscalingv2.MetricValueStatus) string {
	if target.AverageValue != nil {
		return orUnknown(current.AverageValue) + "/" + target.AverageValue.String()
	}
	percent := func(n *int32, otherwise string) string {
		if n == nil {
			return otherwise
		}
		return fmt.Sprintf("%d%%", *n)
	}
	return percent(current.AverageUtilization, "<unknown>") + "/" + percent(target.AverageUtilization, "<auto>")
}

func orUnknown(q *resource.Quantity) string {
	if q == nil {
		return "<unknown>"
	}
	return q.String()
}

// quantity returns the target as text. Validation ensures that it is set.
func quantity(q *resource.Quantity) string {
	if q == nil {
		return "<nil>"
	}
	return q.String()
}
