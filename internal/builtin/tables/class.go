package tables

import (
	"time"

	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// PriorityClasses is the table of priority classes.
func PriorityClasses() Table[schedulingv1.PriorityClass] {
	return Table[schedulingv1.PriorityClass]{Columns: []metav1.TableColumnDefinition{
		nameColumn(),
		ofInt(fieldColumn("Value", schedulingv1.PriorityClass{}, "value")),
		ofBool(fieldColumn("Global-Default", schedulingv1.PriorityClass{}, "globalDefault")),
		ageColumn(),
		fieldColumn("PreemptionPolicy", schedulingv1.PriorityClass{}, "preemptionPolicy"),
	}, Cells: priorityClassCells}
}

func priorityClassCells(c *schedulingv1.PriorityClass, now time.Time) []any {
	return []any{c.Name, int64(c.Value), c.GlobalDefault, age(c.ObjectMeta, now), string(ptr.Deref(c.PreemptionPolicy, ""))}
}

// RuntimeClasses is the table of runtime classes. The handler goes without a description.
func RuntimeClasses() Table[nodev1.RuntimeClass] {
	return Table[nodev1.RuntimeClass]{Columns: []metav1.TableColumnDefinition{nameColumn(), column("Handler", ""), ageColumn()}, Cells: runtimeClassCells}
}

func runtimeClassCells(c *nodev1.RuntimeClass, now time.Time) []any {
	return []any{c.Name, c.Handler, age(c.ObjectMeta, now)}
}
