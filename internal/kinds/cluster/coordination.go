package cluster

import (
	"github.com/kapok-dev/kapok/internal/kinds/kind"
	"github.com/kapok-dev/kapok/internal/resource"

	coordinationv1 "k8s.io/api/coordination/v1"
	coordinationv1beta1 "k8s.io/api/coordination/v1beta1"
)

// Coordination returns the kinds of group coordination.k8s.io.
func Coordination() []kind.Row {
	return []kind.Row{
		kind.Kind[*coordinationv1.Lease]{
			Version:  coordinationv1.SchemeGroupVersion,
			Plural:   "leases",
			Validate: validateLease,
			// Coordinated leader election is off by default in Kubernetes.
			PrepareCreate: func(obj resource.Tree) {
				kind.Drop(obj, "spec", "strategy")
				kind.Drop(obj, "spec", "preferredHolder")
			},
			PrepareUpdate: func(obj, old resource.Tree) {
				for _, name := range []string{"strategy", "preferredHolder"} {
					if kind.Get(old, "spec", name) == nil {
						kind.Drop(obj, "spec", name)
					}
				}
			},
			Table: leasesTable(),
			Retired: []kind.Another[*coordinationv1.Lease]{
				kind.In[*coordinationv1.Lease, *coordinationv1beta1.Lease](coordinationv1beta1.SchemeGroupVersion),
			},
			Versioned: true,
			Strategy:  resource.Strategy{CreateOnUpdate: true},
		}.Row(),
	}
}
