package builtin

import (
	"time"

	"github.com/kapok-dev/kapok/internal/resource"

	coordinationv1 "k8s.io/api/coordination/v1"
	coordinationv1beta1 "k8s.io/api/coordination/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// coordination is the group coordination.k8s.io.
func coordination() []*resource.Definition {
	return []*resource.Definition{
		kind[coordinationv1.Lease]{
			version:  coordinationv1.SchemeGroupVersion,
			plural:   "leases",
			validate: validateLease,
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
			columns: []metav1.TableColumnDefinition{
				nameColumn(), fieldColumn("Holder", coordinationv1.LeaseSpec{}, "holderIdentity"), ageColumn(),
			},
			cells: leaseCells,
			retired: []retired[coordinationv1.Lease]{
				formerly[coordinationv1.Lease, coordinationv1beta1.Lease](coordinationv1beta1.SchemeGroupVersion),
			},
			versioned: true,
			hooks:     resource.Hooks{CreateOnUpdate: true},
		}.definition(),
	}
}

func validateLease(lease, _ *coordinationv1.Lease) field.ErrorList {
	var all field.ErrorList
	spec, path := &lease.Spec, field.NewPath("spec")
	if n := spec.LeaseDurationSeconds; n != nil && *n <= 0 {
		all = append(all, field.Invalid(path.Child("leaseDurationSeconds"), n, "must be greater than 0"))
	}
	if n := spec.LeaseTransitions; n != nil && *n < 0 {
		all = append(all, field.Invalid(path.Child("leaseTransitions"), n, "must be greater than or equal to 0"))
	}
	return all
}

func leaseCells(lease *coordinationv1.Lease, now time.Time) []any {
	holder := ""
	if lease.Spec.HolderIdentity != nil {
		holder = *lease.Spec.HolderIdentity
	}
	return []any{lease.Name, holder, age(lease.ObjectMeta, now)}
}
