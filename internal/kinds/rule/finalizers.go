package rule

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateStandardFinalizer rejects names without a domain that are not Kubernetes' own.
func ValidateStandardFinalizer(name string, path *field.Path) field.ErrorList {
	switch name {
	case string(corev1.FinalizerKubernetes), metav1.FinalizerOrphanDependents, metav1.FinalizerDeleteDependents:
		return nil
	}
	if Qualified(name) {
		return nil
	}
	return field.ErrorList{field.Invalid(path, name, "name is neither a standard finalizer name nor is it fully qualified")}
}

// Finalizers returns the errors of the finalizers of a built-in kind's object, beyond those that
// are common to all kinds.
func Finalizers(obj map[string]any) (all field.ErrorList) {
	meta, _ := obj["metadata"].(map[string]any)
	finalizers, _ := meta["finalizers"].([]any)
	for i, f := range finalizers {
		name, _ := f.(string)
		all = append(all, ValidateStandardFinalizer(name, field.NewPath("metadata", "finalizers").Index(i))...)
	}
	return all
}
