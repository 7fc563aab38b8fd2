package apps

import (
	"time"

	"github.com/kapok-dev/kapok/internal/kinds/kind"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// daemonSetsTable is the table of daemon sets.
func daemonSetsTable() kind.Table[*appsv1.DaemonSet] {
	status := appsv1.DaemonSetStatus{}
	return kind.Table[*appsv1.DaemonSet]{Columns: append([]metav1.TableColumnDefinition{
		kind.NameColumn(),
		kind.Typed("integer", kind.FieldColumn("Desired", status, "desiredNumberScheduled")),
		kind.Typed("integer", kind.FieldColumn("Current", status, "currentNumberScheduled")),
		kind.Typed("integer", kind.FieldColumn("Ready", status, "numberReady")),
		kind.Typed("integer", kind.FieldColumn("Up-to-date", status, "updatedNumberScheduled")),
		kind.Typed("integer", kind.FieldColumn("Available", status, "numberAvailable")),
		kind.FieldColumn("Node Selector", corev1.PodSpec{}, "nodeSelector"),
		kind.AgeColumn(),
	}, kind.WorkloadColumns(kind.FieldColumn("Selector", appsv1.DaemonSetSpec{}, "selector"))...), Cells: daemonSetCells}
}

func daemonSetCells(d *appsv1.DaemonSet, now time.Time) []any {
	names, images := kind.TemplateCells(&d.Spec.Template)
	return []any{
		d.Name, int64(d.Status.DesiredNumberScheduled), int64(d.Status.CurrentNumberScheduled), int64(d.Status.NumberReady),
		int64(d.Status.UpdatedNumberScheduled), int64(d.Status.NumberAvailable),
		labels.FormatLabels(d.Spec.Template.Spec.NodeSelector), kind.Age(d.ObjectMeta, now),
		names, images, metav1.FormatLabelSelector(d.Spec.Selector),
	}
}
