package tables

import (
	"strings"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DeviceClasses is the table of device classes.
func DeviceClasses() Table[resourcev1.DeviceClass] {
	return Table[resourcev1.DeviceClass]{
		Columns: []metav1.TableColumnDefinition{nameColumn(), ageColumn()},
		Cells: func(c *resourcev1.DeviceClass, now time.Time) []any {
			return []any{c.Name, age(c.ObjectMeta, now)}
		},
	}
}

// ResourceClaims is the table of claims of devices.
func ResourceClaims() Table[resourcev1.ResourceClaim] {
	return Table[resourcev1.ResourceClaim]{
		Columns: []metav1.TableColumnDefinition{
			nameColumn(), column("State", "A summary of the current state (allocated, pending, reserved, etc.)."), ageColumn(),
		},
		Cells: func(c *resourcev1.ResourceClaim, now time.Time) []any {
			return []any{c.Name, resourceClaimState(c), age(c.ObjectMeta, now)}
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

// ResourceClaimTemplates is the table of templates of claims.
func ResourceClaimTemplates() Table[resourcev1.ResourceClaimTemplate] {
	return Table[resourcev1.ResourceClaimTemplate]{
		Columns: []metav1.TableColumnDefinition{nameColumn(), ageColumn()},
		Cells: func(t *resourcev1.ResourceClaimTemplate, now time.Time) []any {
			return []any{t.Name, age(t.ObjectMeta, now)}
		},
	}
}

// ResourceSlices is the table of the devices that drivers announce.
func ResourceSlices() Table[resourcev1.ResourceSlice] {
	spec := resourcev1.ResourceSliceSpec{}
	return Table[resourcev1.ResourceSlice]{Columns: []metav1.TableColumnDefinition{
		nameColumn(),
		fieldColumn("Node", spec, "nodeName"),
		fieldColumn("Driver", spec, "driver"),
		fieldColumn("Pool", resourcev1.ResourcePool{}, "name"),
		ageColumn(),
	}, Cells: resourceSliceCells}
}

func resourceSliceCells(s *resourcev1.ResourceSlice, now time.Time) []any {
	node := ""
	if s.Spec.NodeName != nil {
		node = *s.Spec.NodeName
	}
	return []any{s.Name, node, s.Spec.Driver, s.Spec.Pool.Name, age(s.ObjectMeta, now)}
}

// DeviceTaintRules is the table of rules that taint devices.
func DeviceTaintRules() Table[resourcev1.DeviceTaintRule] {
	taint := resourcev1.DeviceTaint{}
	return Table[resourcev1.DeviceTaintRule]{Columns: []metav1.TableColumnDefinition{
		nameColumn(),
		fieldColumn("Key", taint, "key"),
		fieldColumn("Value", taint, "value"),
		fieldColumn("Effect", taint, "effect"),
		fieldColumn("TimeAdded", taint, "timeAdded"),
		ageColumn(),
	}, Cells: deviceTaintCells}
}

func deviceTaintCells(r *resourcev1.DeviceTaintRule, now time.Time) []any {
	taint := r.Spec.Taint
	added := ""
	if taint.TimeAdded != nil {
		added = since(taint.TimeAdded.Time, now)
	}
	return []any{r.Name, taint.Key, taint.Value, string(taint.Effect), added, age(r.ObjectMeta, now)}
}
