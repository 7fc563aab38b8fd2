package builtin

import (
	"github.com/kapok-dev/kapok/internal/builtin/tables"
	"github.com/kapok-dev/kapok/internal/builtin/validation"
	"github.com/kapok-dev/kapok/internal/resource"

	coordinationv1 "k8s.io/api/coordination/v1"
	coordinationv1beta1 "k8s.io/api/coordination/v1beta1"
)

// coordination is the group coordination.k8s.io.
func coordination() []row {
	return []row{
		kind[coordinationv1.Lease]{
			version:  coordinationv1.SchemeGroupVersion,
			plural:   "leases",
			validate: validation.Lease,
			// Coordinated leader election is off in Kubernetes unless asked for.
			prepareCreate: func(obj resource.Tree) {
				drop(obj, "spec", "strategy")
				drop(obj, "spec", "preferredHolder")
			},
			prepareUpdate: func(obj, old resource.Tree) {
				for _, name := range []string{"strategy", "preferredHolder"} {
					if get(old, "spec", name) == nil {
						drop(obj, "spec", name)
					}
				}
			},
			table: tables.Leases(),
			retired: []another[coordinationv1.Lease]{
				in[coordinationv1.Lease, coordinationv1beta1.Lease](coordinationv1beta1.SchemeGroupVersion),
			},
			versioned: true,
			hooks:     resource.Hooks{CreateOnUpdate: true},
		}.row(),
	}
}
