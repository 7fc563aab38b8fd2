package tables

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Leases is the table of leases.
func Leases() Table[coordinationv1.Lease] {
	return Table[coordinationv1.Lease]{Columns: []metav1.TableColumnDefinition{
		nameColumn(), fieldColumn("Holder", coordinationv1.LeaseSpec{}, "holderIdentity"), ageColumn(),
	}, Cells: leaseCells}
}

func leaseCells(lease *coordinationv1.Lease, now time.Time) []any {
	holder := ""
	if lease.Spec.HolderIdentity != nil {
		holder = *lease.Spec.HolderIdentity
	}
	return []any{lease.Name, holder, age(lease.ObjectMeta, now)}
}
