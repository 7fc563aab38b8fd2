package cluster

import (
	"time"

	"github.com/kapok-dev/kapok/internal/kinds/kind"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// leasesTable is the table of leases.
func leasesTable() kind.Table[*coordinationv1.Lease] {
	return kind.Table[*coordinationv1.Lease]{Columns: []metav1.TableColumnDefinition{
		kind.NameColumn(), kind.FieldColumn("Holder", coordinationv1.LeaseSpec{}, "holderIdentity"), kind.AgeColumn(),
	}, Cells: leaseCells}
}

func leaseCells(lease *coordinationv1.Lease, now time.Time) []any {
	holder := ""
	if lease.Spec.HolderIdentity != nil {
		holder = *lease.Spec.HolderIdentity
	}
	return []any{lease.Name, holder, kind.Age(lease.ObjectMeta, now)}
}
