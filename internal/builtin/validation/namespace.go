package validation

import (
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func Namespace(ns, _ *corev1.Namespace) field.ErrorList {
	var all field.ErrorList
	for _, finalizer := range ns.Spec.Finalizers {
		all = append(all, validateFinalizer(string(finalizer), field.NewPath("spec", "finalizers"))...)
	}
	return all
}

func NamespaceFinalizers(ns, _ *corev1.Namespace) field.ErrorList {
	var all field.ErrorList
	for i, finalizer := range ns.Spec.Finalizers {
		all = append(all, validateFinalizer(string(finalizer), field.NewPath("spec", "finalizers").Index(i))...)
	}
	return all
}

// validateFinalizer accepts qualified names and the few that Kubernetes has defined.
func validateFinalizer(name string, path *field.Path) field.ErrorList {
	return append(apivalidation.ValidateFinalizerName(name, path), validateStandardFinalizer(name, path)...)
}

// validateStandardFinalizer wants names without a domain to be Kubernetes' own.
func validateStandardFinalizer(name string, path *field.Path) field.ErrorList {
	switch name {
	case string(corev1.FinalizerKubernetes), metav1.FinalizerOrphanDependents, metav1.FinalizerDeleteDependents:
		return nil
	}
	if qualified(name) {
		return nil
	}
	return field.ErrorList{field.Invalid(path, name, "name is neither a standard finalizer name nor is it fully qualified")}
}

func NamespaceStatus(ns, _ *corev1.Namespace) field.ErrorList {
	path := field.NewPath("status", "Phase")
	switch {
	case ns.DeletionTimestamp.IsZero() && ns.Status.Phase != corev1.NamespaceActive:
		return field.ErrorList{field.Invalid(path, ns.Status.Phase, "may only be 'Active' if `deletionTimestamp` is empty")}
	case !ns.DeletionTimestamp.IsZero() && ns.Status.Phase != corev1.NamespaceTerminating:
		return field.ErrorList{field.Invalid(path, ns.Status.Phase, "may only be 'Terminating' if `deletionTimestamp` is not empty")}
	}
	return nil
}

// Finalizers judges the finalizers of an object of a built-in kind, beyond what is common to all kinds.
func Finalizers(obj map[string]any) (all field.ErrorList) {
	meta, _ := obj["metadata"].(map[string]any)
	finalizers, _ := meta["finalizers"].([]any)
	for i, f := range finalizers {
		name, _ := f.(string)
		all = append(all, validateStandardFinalizer(name, field.NewPath("metadata", "finalizers").Index(i))...)
	}
	return all
}
