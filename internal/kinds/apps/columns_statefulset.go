package apps

import (
	"fmt"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/internal/kinds/kind"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
)

// statefulSetsTable is the table of stateful sets.
func statefulSetsTable() kind.Table[*appsv1.StatefulSet] {
	return kind.Table[*appsv1.StatefulSet]{Columns: append([]metav1.TableColumnDefinition{
		kind.NameColumn(), kind.Column("Ready", "Number of the pod with ready state"), kind.AgeColumn(),
	}, kind.WorkloadColumns()...), Cells: statefulSetCells}
}

func statefulSetCells(s *appsv1.StatefulSet, now time.Time) []any {
	names, images := kind.TemplateCells(&s.Spec.Template)
	return []any{s.Name, fmt.Sprintf("%d/%d", s.Status.ReadyReplicas, ptr.Deref(s.Spec.Replicas, 0)), kind.Age(s.ObjectMeta, now), names, images}
}

// controllerRevisionsTable is the table of controller revisions.
func controllerRevisionsTable() kind.Table[*appsv1.ControllerRevision] {
	return kind.Table[*appsv1.ControllerRevision]{Columns: []metav1.TableColumnDefinition{
		kind.NameColumn(),
		kind.Column("Controller", "Controller of the object"),
		kind.FieldColumn("Revision", appsv1.ControllerRevision{}, "revision"),
		kind.AgeColumn(),
	}, Cells: controllerRevisionCells}
}

func controllerRevisionCells(r *appsv1.ControllerRevision, now time.Time) []any {
	controller := "<none>"
	if ref := metav1.GetControllerOf(r); ref != nil {
		kind := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind()
		controller = strings.ToLower(kind.String()) + "/" + ref.Name
	}
	return []any{r.Name, controller, r.Revision, kind.Age(r.ObjectMeta, now)}
}
