package pods

import (
	"time"

	"github.com/kapok-dev/kapok/internal/kinds/kind"

	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// priorityClassesTable is the table of priority classes.
func priorityClassesTable() kind.Table[*schedulingv1.PriorityClass] {
	return kind.Table[*schedulingv1.PriorityClass]{Columns: []metav1.TableColumnDefinition{
		kind.NameColumn(),
		kind.OfInt(kind.FieldColumn("Value", schedulingv1.PriorityClass{}, "value")),
		kind.OfBool(kind.FieldColumn("Global-Default", schedulingv1.PriorityClass{}, "globalDefault")),
		kind.AgeColumn(),
		kind.FieldColumn("PreemptionPolicy", schedulingv1.PriorityClass{}, "preemptionPolicy"),
	}, Cells: priorityClassCells}
}

func priorityClassCells(c *schedulingv1.PriorityClass, now time.Time) []any {
	return []any{c.Name, int64(c.Value), c.GlobalDefault, kind.Age(c.ObjectMeta, now), string(ptr.Deref(c.PreemptionPolicy, ""))}
}

// runtimeClassesTable is the table of runtime classes. Like Kubernetes', its column of handlers has
// no description.
func runtimeClassesTable() kind.Table[*nodev1.RuntimeClass] {
	return kind.Table[*nodev1.RuntimeClass]{Columns: []metav1.TableColumnDefinition{kind.NameColumn(), kind.Column("Handler", ""), kind.AgeColumn()}, Cells: runtimeClassCells}
}

func runtimeClassCells(c *nodev1.RuntimeClass, now time.Time) []any {
	return []any{c.Name, c.Handler, kind.Age(c.ObjectMeta, now)}
}
