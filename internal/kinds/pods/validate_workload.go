package pods

import (
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// This file has the rules that all kinds with a pod template share.

// ValidateLongRunning rejects pod specs that can end: pods of workloads restart always and have no
// deadline. The error message names the kind in.
func ValidateLongRunning(spec *corev1.PodSpec, in string, path *field.Path) field.ErrorList {
	var all field.ErrorList
	if policy := spec.RestartPolicy; policy != corev1.RestartPolicyAlways {
		all = append(all, field.NotSupported(path.Child("restartPolicy"), policy, []corev1.RestartPolicy{corev1.RestartPolicyAlways}))
	}
	if spec.ActiveDeadlineSeconds != nil {
		all = append(all, field.Forbidden(path.Child("activeDeadlineSeconds"), "activeDeadlineSeconds in "+in+" is not Supported"))
	}
	return all
}

// A Count is a status field with a number of pods, a Part one with a part of the replicas.
type (
	Count struct {
		Name  string
		Value int64
	}
	Part struct {
		Name  string
		Value int32
	}
)

// ValidateCounts rejects negative numbers.
func ValidateCounts(path *field.Path, counts []Count) field.ErrorList {
	var all field.ErrorList
	for _, n := range counts {
		all = append(all, apivalidation.ValidateNonnegativeField(n.Value, path.Child(n.Name))...)
	}
	return all
}

// ValidateParts rejects parts larger than the number of replicas.
func ValidateParts(path *field.Path, replicas int32, parts []Part) field.ErrorList {
	var all field.ErrorList
	for _, n := range parts {
		if n.Value > replicas {
			all = append(all, field.Invalid(path.Child(n.Name), n.Value, "cannot be greater than status.replicas"))
		}
	}
	return all
}

// ValidateCollisions rejects a collision count that decreases.
func ValidateCollisions(now, before *int32, path *field.Path) field.ErrorList {
	if n := ptr.Deref(now, 0); before != nil && n < *before {
		return field.ErrorList{field.Invalid(path, n, "cannot be decremented")}
	}
	return nil
}
