package apps

import (
	"fmt"
	"time"

	"github.com/kapok-dev/kapok/internal/kinds/kind"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// deploymentsTable is the table of deployments.
func deploymentsTable() kind.Table[*appsv1.Deployment] {
	return kind.Table[*appsv1.Deployment]{Columns: []metav1.TableColumnDefinition{
		kind.NameColumn(),
		kind.Column("Ready", "Number of the pod with ready state"),
		kind.FieldColumn("Up-to-date", appsv1.DeploymentStatus{}, "updatedReplicas"),
		kind.FieldColumn("Available", appsv1.DeploymentStatus{}, "availableReplicas"),
		kind.AgeColumn(),
		kind.Wide(kind.Column("Containers", "Names of each container in the template.")),
		kind.Wide(kind.Column("Images", "Images referenced by each container in the template.")),
		kind.Wide(kind.FieldColumn("Selector", appsv1.DeploymentSpec{}, "selector")),
	}, Cells: deploymentCells}
}

func deploymentCells(d *appsv1.Deployment, now time.Time) []any {
	desired := int32(0)
	if d.Spec.Replicas != nil {
		desired = *d.Spec.Replicas
	}
	names, images := kind.ContainerCells(d.Spec.Template.Spec.Containers)
	return []any{
		d.Name, fmt.Sprintf("%d/%d", d.Status.ReadyReplicas, desired), int64(d.Status.UpdatedReplicas), int64(d.Status.AvailableReplicas),
		kind.Age(d.ObjectMeta, now), names, images, kind.SelectorCell(d.Spec.Selector),
	}
}
