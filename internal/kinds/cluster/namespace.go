package cluster

import (
	"errors"
	"slices"

	"github.com/kapok-dev/kapok/internal/kinds/kind"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// prepareNamespace adds the finalizer that keeps a deleted namespace until it is empty.
func prepareNamespace(obj resource.Tree) {
	kind.Put(obj, string(corev1.NamespaceActive), "status", "phase")
	finalizers, _ := kind.Get(obj, "spec", "finalizers").([]any)
	if !slices.Contains(finalizers, any(string(corev1.FinalizerKubernetes))) {
		kind.Put(obj, append(finalizers, string(corev1.FinalizerKubernetes)), "spec", "finalizers")
	}
	// Defaults ran before the name was generated.
	kind.Put(obj, kind.Text(obj, "metadata", "name"), "metadata", "labels", corev1.LabelMetadataName)
}

func terminateNamespace(obj resource.Tree) {
	kind.Put(obj, string(corev1.NamespaceTerminating), "status", "phase")
}

func hasSpecFinalizers(obj resource.Tree) bool {
	finalizers, _ := kind.Get(obj, "spec", "finalizers").([]any)
	return len(finalizers) > 0
}

// refuseSystemNamespaces rejects the deletion of namespaces that the plugin NamespaceLifecycle
// protects.
func refuseSystemNamespaces(o *object.Object) error {
	switch o.Key.Name {
	case metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic:
		return apierrors.NewForbidden(o.Key.Resource, o.Key.Name, errors.New("this namespace may not be deleted"))
	}
	return nil
}
