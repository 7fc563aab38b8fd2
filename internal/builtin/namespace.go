package builtin

import (
	"errors"
	"slices"
	"time"

	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// prepareNamespace has the namespace wait, when it is deleted, until it is empty.
func prepareNamespace(obj resource.Tree) {
	put(obj, string(corev1.NamespaceActive), "status", "phase")
	finalizers, _ := get(obj, "spec", "finalizers").([]any)
	if !slices.Contains(finalizers, any(string(corev1.FinalizerKubernetes))) {
		put(obj, append(finalizers, string(corev1.FinalizerKubernetes)), "spec", "finalizers")
	}
	// A generated name was not known yet when defaults were filled in.
	put(obj, text(obj, "metadata", "name"), "metadata", "labels", corev1.LabelMetadataName)
}

func terminateNamespace(obj resource.Tree) {
	put(obj, string(corev1.NamespaceTerminating), "status", "phase")
}

func hasSpecFinalizers(obj resource.Tree) bool {
	finalizers, _ := get(obj, "spec", "finalizers").([]any)
	return len(finalizers) > 0
}

// refuseSystemNamespaces is what NamespaceLifecycle does on deletion.
func refuseSystemNamespaces(o *object.Object) error {
	switch o.Key.Name {
	case metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic:
		return apierrors.NewForbidden(o.Key.Resource, o.Key.Name, errors.New("this namespace may not be deleted"))
	}
	return nil
}

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

// validateFinalizers judges the finalizers of any object of a built-in kind, beyond what is common to all kinds.
func validateFinalizers(obj resource.Tree) (all field.ErrorList) {
	finalizers, _ := get(obj, "metadata", "finalizers").([]any)
	for i, f := range finalizers {
		name, _ := f.(string)
		all = append(all, validateStandardFinalizer(name, field.NewPath("metadata", "finalizers").Index(i))...)
	}
	return all
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

func namespaceCells(ns *corev1.Namespace, now time.Time) []any {
	return []any{ns.Name, string(ns.Status.Phase), age(ns.ObjectMeta, now)}
}
