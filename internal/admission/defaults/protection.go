package defaults

import (
	"context"

	"github.com/kapok-dev/kapok/internal/admission"
	"github.com/kapok-dev/kapok/internal/resource"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// StorageInUse is Kubernetes' plugin StorageObjectInUseProtection: it adds a finalizer to
// PersistentVolumes, their claims and VolumeAttributesClasses. A controller removes it once they
// are unused.
type StorageInUse struct{}

// protectors has the finalizers by resource.
var protectors = map[struct{ group, plural string }]string{
	{"", "persistentvolumeclaims"}:                   "kubernetes.io/pvc-protection",
	{"", "persistentvolumes"}:                        "kubernetes.io/pv-protection",
	{storagev1.GroupName, "volumeattributesclasses"}: "kubernetes.io/vac-protection",
}

func protector(r *resource.Request) string {
	return protectors[struct{ group, plural string }{r.Definition.Group, r.Definition.Plural}]
}

// Handles implements admission.Plugin.
func (StorageInUse) Handles(r *resource.Request, op resource.Operation) bool {
	return op == resource.OperationCreate && r.Subresource == "" && protector(r) != ""
}

// Mutate implements admission.Mutator.
func (StorageInUse) Mutate(_ context.Context, a *resource.Admitted) error {
	addFinalizer(a.Object, protector(a.Request))
	return nil
}

// NewNodes is Kubernetes' plugin TaintNodesByCondition: it taints new nodes as not ready until a
// controller removes the taint.
type NewNodes struct{}

// Handles implements admission.Plugin.
func (NewNodes) Handles(r *resource.Request, op resource.Operation) bool {
	return op == resource.OperationCreate && is(r, "", "nodes")
}

// Mutate implements admission.Mutator.
func (NewNodes) Mutate(_ context.Context, a *resource.Admitted) error {
	spec := admission.Child(a.Object, "spec")
	taints, _ := spec["taints"].([]any)
	for _, item := range taints {
		t, _ := item.(map[string]any)
		if t["key"] == corev1.TaintNodeNotReady && t["effect"] == string(corev1.TaintEffectNoSchedule) {
			return nil
		}
	}
	spec["taints"] = append(taints, resource.Tree{"key": corev1.TaintNodeNotReady, "effect": string(corev1.TaintEffectNoSchedule)})
	return nil
}
