package pods

import (
	"time"

	"github.com/kapok-dev/kapok/internal/kinds/kind"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// podDisruptionBudgetsTable is the table of pod disruption budgets.
func podDisruptionBudgetsTable() kind.Table[*policyv1.PodDisruptionBudget] {
	return kind.Table[*policyv1.PodDisruptionBudget]{Columns: []metav1.TableColumnDefinition{
		kind.NameColumn(),
		kind.Column("Min Available", "The minimum number of pods that must be available."),
		kind.Column("Max Unavailable", "The maximum number of pods that may be unavailable."),
		kind.Typed("integer", kind.Column("Allowed Disruptions", "Calculated number of pods that may be disrupted at this time.")),
		kind.AgeColumn(),
	}, Cells: disruptionCells}
}

func disruptionCells(b *policyv1.PodDisruptionBudget, now time.Time) []any {
	amount := func(n *intstr.IntOrString) string {
		if n == nil {
			return "N/A"
		}
		return n.String()
	}
	return []any{b.Name, amount(b.Spec.MinAvailable), amount(b.Spec.MaxUnavailable), int64(b.Status.DisruptionsAllowed), kind.Age(b.ObjectMeta, now)}
}
