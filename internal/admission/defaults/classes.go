package defaults

import (
	"context"

	"github.com/kapok-dev/kapok/internal/admission"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	networkingv1beta1 "k8s.io/api/networking/v1beta1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// IngressClass is Kubernetes' plugin DefaultIngressClass: it sets the default class of ingresses
// without a class.
type IngressClass struct{ State *state.State }

// Handles implements admission.Plugin.
func (IngressClass) Handles(r *resource.Request, op resource.Operation) bool {
	return op == resource.OperationCreate && is(r, networkingv1.GroupName, "ingresses")
}

// Mutate implements admission.Mutator.
func (p IngressClass) Mutate(_ context.Context, a *resource.Admitted) error {
	spec := admission.Child(a.Object, "spec")
	_, annotated, _ := unstructured.NestedString(a.Object, "metadata", "annotations", networkingv1beta1.AnnotationIngressClass)
	if spec["ingressClassName"] != nil || annotated {
		return nil
	}
	classes := schema.GroupResource{Group: networkingv1.GroupName, Resource: "ingressclasses"}
	class, err := newest(p.State, classes, networkingv1.AnnotationIsDefaultIngressClass)
	if err != nil {
		return admission.Forbidden(a, err)
	}
	if class != nil {
		spec["ingressClassName"] = class.Key.Name
	}
	return nil
}

// StorageClass is Kubernetes' plugin DefaultStorageClass: it sets the default class of
// PersistentVolumeClaims without a class.
type StorageClass struct{ State *state.State }

var storageClasses = schema.GroupResource{Group: "storage.k8s.io", Resource: "storageclasses"}

// Handles implements admission.Plugin.
func (StorageClass) Handles(r *resource.Request, op resource.Operation) bool {
	return op == resource.OperationCreate && is(r, "", "persistentvolumeclaims")
}

// Mutate implements admission.Mutator.
func (p StorageClass) Mutate(_ context.Context, a *resource.Admitted) error {
	spec := admission.Child(a.Object, "spec")
	_, annotated, _ := unstructured.NestedString(a.Object, "metadata", "annotations", corev1.BetaStorageClassAnnotation)
	if spec["storageClassName"] != nil || annotated {
		return nil
	}
	class, err := newest(p.State, storageClasses, "storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")
	if err != nil {
		return admission.Forbidden(a, err)
	}
	if class != nil {
		spec["storageClassName"] = class.Key.Name
	}
	return nil
}
