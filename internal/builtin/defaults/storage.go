package defaults

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	storagev1alpha1 "k8s.io/api/storage/v1alpha1"
	storagev1beta1 "k8s.io/api/storage/v1beta1"
)

func storageTypes(f *functions) {
	// Nobody fills in the volume that an attachment of v1alpha1 holds.
	whole(f, func(*storagev1alpha1.VolumeAttachment) {})
	on(f, func(c *storagev1.StorageClass) {
		set(&c.ReclaimPolicy, corev1.PersistentVolumeReclaimDelete)
		set(&c.VolumeBindingMode, storagev1.VolumeBindingImmediate)
	})
	on(f, func(c *storagev1beta1.StorageClass) {
		set(&c.ReclaimPolicy, corev1.PersistentVolumeReclaimDelete)
		set(&c.VolumeBindingMode, storagev1beta1.VolumeBindingImmediate)
	})
	on(f, func(spec *storagev1.CSIDriverSpec) {
		set(&spec.AttachRequired, true)
		set(&spec.FSGroupPolicy, storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy)
		if len(spec.VolumeLifecycleModes) == 0 {
			spec.VolumeLifecycleModes = []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent}
		}
		unset(&spec.PodInfoOnMount, &spec.StorageCapacity, &spec.RequiresRepublish, &spec.SELinuxMount, &spec.PreventPodSchedulingIfMissing)
	})
	on(f, func(spec *storagev1beta1.CSIDriverSpec) {
		set(&spec.AttachRequired, true)
		set(&spec.FSGroupPolicy, storagev1beta1.ReadWriteOnceWithFSTypeFSGroupPolicy)
		if len(spec.VolumeLifecycleModes) == 0 {
			spec.VolumeLifecycleModes = []storagev1beta1.VolumeLifecycleMode{storagev1beta1.VolumeLifecyclePersistent}
		}
		unset(&spec.PodInfoOnMount, &spec.StorageCapacity, &spec.RequiresRepublish, &spec.SELinuxMount, &spec.PreventPodSchedulingIfMissing)
	})
}

// unset says no where nothing is said.
func unset(switches ...**bool) {
	for _, s := range switches {
		set(s, false)
	}
}
