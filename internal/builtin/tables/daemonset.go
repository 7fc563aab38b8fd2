package tables

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// DaemonSets is the table of daemon sets.
func DaemonSets() Table[appsv1.DaemonSet] {
	status := appsv1.DaemonSetStatus{}
	return Table[appsv1.DaemonSet]{Columns: append([]metav1.TableColumnDefinition{
		nameColumn(),
		typed("integer", fieldColumn("Desired", status, "desiredNumberScheduled")),
		typed("integer", fieldColumn("Current", status, "currentNumberScheduled")),
		typed("integer", fieldColumn("Ready", status, "numberReady")),
		typed("integer", fieldColumn("Up-to-date", status, "updatedNumberScheduled")),
		typed("integer", fieldColumn("Available", status, "numberAvailable")),
		fieldColumn("Node Selector", corev1.PodSpec{}, "nodeSelector"),
		ageColumn(),
	}, workloadColumns(fieldColumn("Selector", appsv1.DaemonSetSpec{}, "selector"))...), Cells: daemonSetCells}
}

func daemonSetCells(d *appsv1.DaemonSet, now time.Time) []any {
	names, images := templateCells(&d.Spec.Template)
	return []any{
		d.Name, int64(d.Status.DesiredNumberScheduled), int64(d.Status.CurrentNumberScheduled), int64(d.Status.NumberReady),
		int64(d.Status.UpdatedNumberScheduled), int64(d.Status.NumberAvailable),
		labels.FormatLabels(d.Spec.Template.Spec.NodeSelector), age(d.ObjectMeta, now),
		names, images, metav1.FormatLabelSelector(d.Spec.Selector),
	}
}
