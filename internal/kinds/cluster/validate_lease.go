package cluster

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

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
