package quota

import (
	corev1 "k8s.io/api/core/v1"
	quantity "k8s.io/apimachinery/pkg/api/resource"
)

// A volume is a PersistentVolumeClaim. It also counts for its storage class.
type volume corev1.PersistentVolumeClaim

// storageClassInfix separates a storage class from the resource that its claims use.
const storageClassInfix = ".storageclass.storage.k8s.io/"

func (v *volume) usage() corev1.ResourceList {
	used := corev1.ResourceList{countOf(volumes): many(1), corev1.ResourcePersistentVolumeClaims: many(1)}
	if size := v.size(); size != nil {
		used[corev1.ResourceRequestsStorage] = *size
	}
	if class := v.class(); class != "" {
		for _, name := range []corev1.ResourceName{corev1.ResourcePersistentVolumeClaims, corev1.ResourceRequestsStorage} {
			if q, ok := used[name]; ok {
				used[corev1.ResourceName(class+storageClassInfix)+name] = q
			}
		}
	}
	return used
}

func (v *volume) class() string {
	if class, ok := v.Annotations[corev1.BetaStorageClassAnnotation]; ok {
		return class
	}
	if v.Spec.StorageClassName != nil {
		return *v.Spec.StorageClassName
	}
	return ""
}

// size returns the larger of the requested and the allocated size, in whole bytes; nil if none is
// requested.
func (v *volume) size() *quantity.Quantity {
	size, ok := v.Spec.Resources.Requests[corev1.ResourceStorage]
	if !ok {
		return nil
	}
	if given := v.Status.AllocatedResources[corev1.ResourceStorage]; given.Cmp(size) > 0 {
		size = given
	}
	size = size.DeepCopy()
	size.RoundUp(0)
	return &size
}

func (v *volume) in(scope corev1.ScopedResourceSelectorRequirement) bool {
	if scope.ScopeName != corev1.ResourceQuotaScopeVolumeAttributesClass {
		return false
	}
	var classes []string
	for _, class := range []*string{v.Spec.VolumeAttributesClassName, v.Status.CurrentVolumeAttributesClassName} {
		if class != nil && *class != "" {
			classes = append(classes, *class)
		}
	}
	if m := v.Status.ModifyVolumeStatus; m != nil && m.TargetVolumeAttributesClassName != "" {
		classes = append(classes, m.TargetVolumeAttributesClassName)
	}
	return selects(scope, classes...)
}

func (*volume) lacks([]corev1.ResourceName) error { return nil }
