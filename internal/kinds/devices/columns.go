package devices

import (
	"strings"
	"time"

	"github.com/kapok-dev/kapok/internal/kinds/kind"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// deviceClassesTable is the table of device classes.
func deviceClassesTable() kind.Table[*resourcev1.DeviceClass] {
	return kind.Table[*resourcev1.DeviceClass]{
		Columns: []metav1.TableColumnDefinition{kind.NameColumn(), kind.AgeColumn()},
		Cells: func(c *resourcev1.DeviceClass, now time.Time) []any {
			return []any{c.Name, kind.Age(c.ObjectMeta, now)}
		},
	}
}

// resourceClaimsTable is the table of claims of devices.
func resourceClaimsTable() kind.Table[*resourcev1.ResourceClaim] {
	return kind.Table[*resourcev1.ResourceClaim]{
		Columns: []metav1.TableColumnDefinition{
			kind.NameColumn(), kind.Column("State", "A summary of the current state (allocated, pending, reserved, etc.)."), kind.AgeColumn(),
		},
		Cells: func(c *resourcev1.ResourceClaim, now time.Time) []any {
			return []any{c.Name, resourceClaimState(c), kind.Age(c.ObjectMeta, now)}
		},
	}
}

func resourceClaimState(c *resourcev1.ResourceClaim) string {
	var states []string
	deleted, allocated := c.DeletionTimestamp != nil, c.Status.Allocation != nil
	if deleted {
		states = append(states, "deleted")
	}
	switch {
	case allocated && len(c.Status.ReservedFor) > 0:
		states = append(states, "allocated", "reserved")
	case allocated:
		states = append(states, "allocated")
	case !deleted:
		states = append(states, "pending")
	}
	return strings.Join(states, ",")
}

// resourceClaimTemplatesTable is the table of templates of claims.
func resourceClaimTemplatesTable() kind.Table[*resourcev1.ResourceClaimTemplate] {
	return kind.Table[*resourcev1.ResourceClaimTemplate]{
		Columns: []metav1.TableColumnDefinition{kind.NameColumn(), kind.AgeColumn()},
		Cells: func(t *resourcev1.ResourceClaimTemplate, now time.Time) []any {
			return []any{t.Name, kind.Age(t.ObjectMeta, now)}
		},
	}
}

// resourceSlicesTable is the table of resource slices.
func resourceSlicesTable() kind.Table[*resourcev1.ResourceSlice] {
	spec := resourcev1.ResourceSliceSpec{}
	return kind.Table[*resourcev1.ResourceSlice]{Columns: []metav1.TableColumnDefinition{
		kind.NameColumn(),
		kind.FieldColumn("Node", spec, "nodeName"),
		kind.FieldColumn("Driver", spec, "driver"),
		kind.FieldColumn("Pool", resourcev1.ResourcePool{}, "name"),
		kind.AgeColumn(),
	}, Cells: resourceSliceCells}
}

func resourceSliceCells(s *resourcev1.ResourceSlice, now time.Time) []any {
	node := ""
	if s.Spec.NodeName != nil {
		node = *s.Spec.NodeName
	}
	return []any{s.Name, node, s.Spec.Driver, s.Spec.Pool.Name, kind.Age(s.ObjectMeta, now)}
}

// deviceTaintRulesTable is the table of device taint rules.
func deviceTaintRulesTable() kind.Table[*resourcev1.DeviceTaintRule] {
	taint := resourcev1.DeviceTaint{}
	return kind.Table[*resourcev1.DeviceTaintRule]{Columns: []metav1.TableColumnDefinition{
		kind.NameColumn(),
		kind.FieldColumn("Key", taint, "key"),
		kind.FieldColumn("Value", taint, "value"),
		kind.FieldColumn("Effect", taint, "effect"),
		kind.FieldColumn("TimeAdded", taint, "timeAdded"),
		kind.AgeColumn(),
	}, Cells: deviceTaintCells}
}

func deviceTaintCells(r *resourcev1.DeviceTaintRule, now time.Time) []any {
	taint := r.Spec.Taint
	added := ""
	if taint.TimeAdded != nil {
		added = kind.Since(taint.TimeAdded.Time, now)
	}
	return []any{r.Name, taint.Key, taint.Value, string(taint.Effect), added, kind.Age(r.ObjectMeta, now)}
}
