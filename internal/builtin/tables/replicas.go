package tables

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
)

// ReplicaSets is the table of replica sets.
func ReplicaSets() Table[appsv1.ReplicaSet] {
	return Table[appsv1.ReplicaSet]{Columns: replicaColumns(appsv1.ReplicaSetSpec{}, appsv1.ReplicaSetStatus{}), Cells: replicaSetCells}
}

// ReplicationControllers is the table of replication controllers.
func ReplicationControllers() Table[corev1.ReplicationController] {
	return Table[corev1.ReplicationController]{
		Columns: replicaColumns(corev1.ReplicationControllerSpec{}, corev1.ReplicationControllerStatus{}), Cells: replicationControllerCells,
	}
}

func replicaColumns(spec, status documented) []metav1.TableColumnDefinition {
	return append([]metav1.TableColumnDefinition{
		nameColumn(),
		typed("integer", fieldColumn("Desired", spec, "replicas")),
		typed("integer", fieldColumn("Current", status, "replicas")),
		typed("integer", fieldColumn("Ready", status, "readyReplicas")),
		ageColumn(),
	}, workloadColumns(fieldColumn("Selector", spec, "selector"))...)
}

func replicaSetCells(r *appsv1.ReplicaSet, now time.Time) []any {
	names, images := templateCells(&r.Spec.Template)
	return []any{
		r.Name, int64(ptr.Deref(r.Spec.Replicas, 0)), int64(r.Status.Replicas), int64(r.Status.ReadyReplicas), age(r.ObjectMeta, now),
		names, images, metav1.FormatLabelSelector(r.Spec.Selector),
	}
}

func replicationControllerCells(r *corev1.ReplicationController, now time.Time) []any {
	names, images := templateCells(r.Spec.Template)
	return []any{
		r.Name, int64(ptr.Deref(r.Spec.Replicas, 0)), int64(r.Status.Replicas), int64(r.Status.ReadyReplicas), age(r.ObjectMeta, now),
		names, images, labels.FormatLabels(r.Spec.Selector),
	}
}

// PodTemplates is the table of pod templates.
func PodTemplates() Table[corev1.PodTemplate] {
	return Table[corev1.PodTemplate]{
		Columns: append(append([]metav1.TableColumnDefinition{nameColumn()}, containerColumns()...), column("Pod Labels", "The labels for the pod template.")),
		Cells: func(t *corev1.PodTemplate, _ time.Time) []any {
			names, images := templateCells(&t.Template)
			return []any{t.Name, names, images, labels.FormatLabels(t.Template.Labels)}
		},
	}
}
