package storage

import (
	"github.com/kapok-dev/kapok/internal/kinds/defaults"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	storagev1alpha1 "k8s.io/api/storage/v1alpha1"
	storagev1beta1 "k8s.io/api/storage/v1beta1"
)

// Defaults registers the defaults of this group's types.
func Defaults(f *defaults.Functions) {
	defaults.On(f, func(v *corev1.PersistentVolume) {
		defaults.Value(&v.Status.Phase, corev1.VolumePending)
		defaults.Value(&v.Spec.PersistentVolumeReclaimPolicy, corev1.PersistentVolumeReclaimRetain)
		defaults.Pointer(&v.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)
	})
	defaults.On(f, defaultPersistentSource)
	defaults.On(f, func(c *corev1.PersistentVolumeClaim) { defaults.Value(&c.Status.Phase, corev1.ClaimPending) })
	defaults.On(f, func(spec *corev1.PersistentVolumeClaimSpec) {
		defaults.Pointer(&spec.VolumeMode, corev1.PersistentVolumeFilesystem)
	})
	// As in Kubernetes, the inline volume of an attachment has no defaults in v1alpha1.
	defaults.Whole(f, func(*storagev1alpha1.VolumeAttachment) {})
	defaults.On(f, func(c *storagev1.StorageClass) {
		defaults.Pointer(&c.ReclaimPolicy, corev1.PersistentVolumeReclaimDelete)
		defaults.Pointer(&c.VolumeBindingMode, storagev1.VolumeBindingImmediate)
	})
	defaults.On(f, func(c *storagev1beta1.StorageClass) {
		defaults.Pointer(&c.ReclaimPolicy, corev1.PersistentVolumeReclaimDelete)
		defaults.Pointer(&c.VolumeBindingMode, storagev1beta1.VolumeBindingImmediate)
	})
	defaults.On(f, func(spec *storagev1.CSIDriverSpec) {
		defaults.Pointer(&spec.AttachRequired, true)
		defaults.Pointer(&spec.FSGroupPolicy, storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy)
		if len(spec.VolumeLifecycleModes) == 0 {
			spec.VolumeLifecycleModes = []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent}
		}
		unset(&spec.PodInfoOnMount, &spec.StorageCapacity, &spec.RequiresRepublish, &spec.SELinuxMount, &spec.PreventPodSchedulingIfMissing)
	})
	defaults.On(f, func(spec *storagev1beta1.CSIDriverSpec) {
		defaults.Pointer(&spec.AttachRequired, true)
		defaults.Pointer(&spec.FSGroupPolicy, storagev1beta1.ReadWriteOnceWithFSTypeFSGroupPolicy)
		if len(spec.VolumeLifecycleModes) == 0 {
			spec.VolumeLifecycleModes = []storagev1beta1.VolumeLifecycleMode{storagev1beta1.VolumeLifecyclePersistent}
		}
		unset(&spec.PodInfoOnMount, &spec.StorageCapacity, &spec.RequiresRepublish, &spec.SELinuxMount, &spec.PreventPodSchedulingIfMissing)
	})
}

// unset sets missing switches to false.
func unset(switches ...**bool) {
	for _, s := range switches {
		defaults.Pointer(s, false)
	}
}

// defaultPersistentSource applies the defaults of network volumes, whose types in persistent
// volumes have other references to secrets.
func defaultPersistentSource(source *corev1.PersistentVolumeSource) {
	if v := source.HostPath; v != nil {
		defaults.Pointer(&v.Type, corev1.HostPathUnset)
	}
	if v := source.ISCSI; v != nil {
		defaults.Value(&v.ISCSIInterface, "default")
	}
	if v := source.RBD; v != nil {
		defaults.Value(&v.RBDPool, "rbd")
		defaults.Value(&v.RadosUser, "admin")
		defaults.Value(&v.Keyring, "/etc/ceph/keyring")
	}
	if v := source.AzureDisk; v != nil {
		defaults.Pointer(&v.CachingMode, corev1.AzureDataDiskCachingReadWrite)
		defaults.Pointer(&v.FSType, "ext4")
		defaults.Pointer(&v.ReadOnly, false)
		defaults.Pointer(&v.Kind, corev1.AzureSharedBlobDisk)
	}
	if v := source.ScaleIO; v != nil {
		defaults.Value(&v.StorageMode, "ThinProvisioned")
		defaults.Value(&v.FSType, "xfs")
	}
}
