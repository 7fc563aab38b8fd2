package tables

import (
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
)

// StatefulSets is the table of stateful sets.
func StatefulSets() Table[appsv1.StatefulSet] {
	return Table[appsv1.StatefulSet]{Columns: append([]metav1.TableColumnDefinition{
		nameColumn(), column("Ready", "Number of the pod with ready state"), ageColumn(),
	}, workloadColumns()...), Cells: statefulSetCells}
}

func statefulSetCells(s *appsv1.StatefulSet, now time.Time) []any {
	names, images := templateCells(&s.Spec.Template)
	return []any{s.Name, fmt.Sprintf("%d/%d", s.Status.ReadyReplicas, ptr.Deref(s.Spec.Replicas, 0)), age(s.ObjectMeta, now), names, images}
}

// ControllerRevisions is the table of controller revisions.
func ControllerRevisions() Table[appsv1.ControllerRevision] {
	return Table[appsv1.ControllerRevision]{Columns: []metav1.TableColumnDefinition{
		nameColumn(),
		column("Controller", "Controller of the object"),
		fieldColumn("Revision", appsv1.ControllerRevision{}, "revision"),
		ageColumn(),
	}, Cells: controllerRevisionCells}
}

func controllerRevisionCells(r *appsv1.ControllerRevision, now time.Time) []any {
	controller := "<none>"
	if ref := metav1.GetControllerOf(r); ref != nil {
		kind := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind()
		controller = strings.ToLower(kind.String()) + "/" + ref.Name
	}
	return []any{r.Name, controller, r.Revision, age(r.ObjectMeta, now)}
}
