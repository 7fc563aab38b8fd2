package tables

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Deployments is the table of deployments.
func Deployments() Table[appsv1.Deployment] {
	return Table[appsv1.Deployment]{Columns: []metav1.TableColumnDefinition{
		nameColumn(),
		column("Ready", "Number of the pod with ready state"),
		fieldColumn("Up-to-date", appsv1.DeploymentStatus{}, "updatedReplicas"),
		fieldColumn("Available", appsv1.DeploymentStatus{}, "availableReplicas"),
		ageColumn(),
		wide(column("Containers", "Names of each container in the template.")),
		wide(column("Images", "Images referenced by each container in the template.")),
		wide(fieldColumn("Selector", appsv1.DeploymentSpec{}, "selector")),
	}, Cells: deploymentCells}
}

func deploymentCells(d *appsv1.Deployment, now time.Time) []any {
	desired := int32(0)
	if d.Spec.Replicas != nil {
		desired = *d.Spec.Replicas
	}
	names, images := containerCells(d.Spec.Template.Spec.Containers)
	return []any{
		d.Name, fmt.Sprintf("%d/%d", d.Status.ReadyReplicas, desired), int64(d.Status.UpdatedReplicas), int64(d.Status.AvailableReplicas),
		age(d.ObjectMeta, now), names, images, selectorCell(d.Spec.Selector),
	}
}
