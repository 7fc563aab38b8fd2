package tables

import (
	"time"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// PodDisruptionBudgets is the table of pod disruption budgets.
func PodDisruptionBudgets() Table[policyv1.PodDisruptionBudget] {
	return Table[policyv1.PodDisruptionBudget]{Columns: []metav1.TableColumnDefinition{
		nameColumn(),
		column("Min Available", "The minimum number of pods that must be available."),
		column("Max Unavailable", "The maximum number of pods that may be unavailable."),
		typed("integer", column("Allowed Disruptions", "Calculated number of pods that may be disrupted at this time.")),
		ageColumn(),
	}, Cells: disruptionCells}
}

func disruptionCells(b *policyv1.PodDisruptionBudget, now time.Time) []any {
	amount := func(n *intstr.IntOrString) string {
		if n == nil {
			return "N/A"
		}
		return n.String()
	}
	return []any{b.Name, amount(b.Spec.MinAvailable), amount(b.Spec.MaxUnavailable), int64(b.Status.DisruptionsAllowed), age(b.ObjectMeta, now)}
}
