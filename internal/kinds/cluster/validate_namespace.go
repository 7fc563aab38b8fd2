package cluster

import (
	"github.com/kapok-dev/kapok/internal/kinds/rule"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func validateNamespace(ns, _ *corev1.Namespace) field.ErrorList {
	var all field.ErrorList
	for _, finalizer := range ns.Spec.Finalizers {
		all = append(all, validateFinalizer(string(finalizer), field.NewPath("spec", "finalizers"))...)
	}
	return all
}

func validateNamespaceFinalizers(ns, _ *corev1.Namespace) field.ErrorList {
	var all field.ErrorList
	for i, finalizer := range ns.Spec.Finalizers {
		all = append(all, validateFinalizer(string(finalizer), field.NewPath("spec", "finalizers").Index(i))...)
	}
	return all
}

// validateFinalizer accepts qualified names and those that Kubernetes defines.
func validateFinalizer(name string, path *field.Path) field.ErrorList {
	return append(apivalidation.ValidateFinalizerName(name, path), rule.ValidateStandardFinalizer(name, path)...)
}

func validateNamespaceStatus(ns, _ *corev1.Namespace) field.ErrorList {
	path := field.NewPath("status", "Phase")
	switch {
	case ns.DeletionTimestamp.IsZero() && ns.Status.Phase != corev1.NamespaceActive:
		return field.ErrorList{field.Invalid(path, ns.Status.Phase, "may only be 'Active' if `deletionTimestamp` is empty")}
	case !ns.DeletionTimestamp.IsZero() && ns.Status.Phase != corev1.NamespaceTerminating:
		return field.ErrorList{field.Invalid(path, ns.Status.Phase, "may only be 'Terminating' if `deletionTimestamp` is not empty")}
	}
	return nil
}
