package apps

import (
	"time"

	"github.com/kapok-dev/kapok/internal/kinds/kind"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
)

// replicaSetsTable is the table of replica sets.
func replicaSetsTable() kind.Table[*appsv1.ReplicaSet] {
	return kind.Table[*appsv1.ReplicaSet]{Columns: replicaColumns(appsv1.ReplicaSetSpec{}, appsv1.ReplicaSetStatus{}), Cells: replicaSetCells}
}

// replicationControllersTable is the table of replication controllers.
func replicationControllersTable() kind.Table[*corev1.ReplicationController] {
	return kind.Table[*corev1.ReplicationController]{
		Columns: replicaColumns(corev1.ReplicationControllerSpec{}, corev1.ReplicationControllerStatus{}), Cells: replicationControllerCells,
	}
}

func replicaColumns(spec, status kind.Documented) []metav1.TableColumnDefinition {
	return append([]metav1.TableColumnDefinition{
		kind.NameColumn(),
		kind.Typed("integer", kind.FieldColumn("Desired", spec, "replicas")),
		kind.Typed("integer", kind.FieldColumn("Current", status, "replicas")),
		kind.Typed("integer", kind.FieldColumn("Ready", status, "readyReplicas")),
		kind.AgeColumn(),
	}, kind.WorkloadColumns(kind.FieldColumn("Selector", spec, "selector"))...)
}

func replicaSetCells(r *appsv1.ReplicaSet, now time.Time) []any {
	names, images := kind.TemplateCells(&r.Spec.Template)
	return []any{
		r.Name, int64(ptr.Deref(r.Spec.Replicas, 0)), int64(r.Status.Replicas), int64(r.Status.ReadyReplicas), kind.Age(r.ObjectMeta, now),
		names, images, metav1.FormatLabelSelector(r.Spec.Selector),
	}
}

func replicationControllerCells(r *corev1.ReplicationController, now time.Time) []any {
	names, images := kind.TemplateCells(r.Spec.Template)
	return []any{
		r.Name, int64(ptr.Deref(r.Spec.Replicas, 0)), int64(r.Status.Replicas), int64(r.Status.ReadyReplicas), kind.Age(r.ObjectMeta, now),
		names, images, labels.FormatLabels(r.Spec.Selector),
	}
}

// podTemplatesTable is the table of pod templates.
func podTemplatesTable() kind.Table[*corev1.PodTemplate] {
	return kind.Table[*corev1.PodTemplate]{
		Columns: append(append([]metav1.TableColumnDefinition{kind.NameColumn()}, kind.ContainerColumns()...), kind.Column("Pod Labels", "The labels for the pod template.")),
		Cells: func(t *corev1.PodTemplate, _ time.Time) []any {
			names, images := kind.TemplateCells(&t.Template)
			return []any{t.Name, names, images, labels.FormatLabels(t.Template.Labels)}
		},
	}
}
