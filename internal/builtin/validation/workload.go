package validation

import (
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// Here is what all that makes pods from a template has in common.

// validateEndless judges the spec of pods that run for ever.
func validateEndless(spec *corev1.PodSpec, in string, path *field.Path) field.ErrorList {
	var all field.ErrorList
	if policy := spec.RestartPolicy; policy != corev1.RestartPolicyAlways {
		all = append(all, field.NotSupported(path.Child("restartPolicy"), policy, []corev1.RestartPolicy{corev1.RestartPolicyAlways}))
	}
	if spec.ActiveDeadlineSeconds != nil {
		all = append(all, field.Forbidden(path.Child("activeDeadlineSeconds"), "activeDeadlineSeconds in "+in+" is not Supported"))
	}
	return all
}

type (
	count struct {
		name  string
		value int64
	}
	part struct {
		name  string
		value int32
	}
)

// validateCounts wants numbers that are not below zero.
func validateCounts(path *field.Path, counts []count) field.ErrorList {
	var all field.ErrorList
	for _, n := range counts {
		all = append(all, apivalidation.ValidateNonnegativeField(n.value, path.Child(n.name))...)
	}
	return all
}

// validateParts wants no more of the replicas than there are.
func validateParts(path *field.Path, replicas int32, parts []part) field.ErrorList {
	var all field.ErrorList
	for _, n := range parts {
		if n.value > replicas {
			all = append(all, field.Invalid(path.Child(n.name), n.value, "cannot be greater than status.replicas"))
		}
	}
	return all
}

// validateCollisions: what has collided has done so for good.
func validateCollisions(now, before *int32, path *field.Path) field.ErrorList {
	if n := ptr.Deref(now, 0); before != nil && n < *before {
		return field.ErrorList{field.Invalid(path, n, "cannot be decremented")}
	}
	return nil
}
