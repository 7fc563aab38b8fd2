package pods

import (
	"github.com/kapok-dev/kapok/internal/kinds/defaults"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// defaultVolume makes a volume without a source an emptyDir, and applies the defaults of its
// source.
func defaultVolume(volume *corev1.Volume) {
	source := &volume.VolumeSource
	if ptr.AllPtrFieldsNil(source) {
		source.EmptyDir = &corev1.EmptyDirVolumeSource{}
	}
	if v := source.HostPath; v != nil {
		defaults.Pointer(&v.Type, corev1.HostPathUnset)
	}
	if v := source.Secret; v != nil {
		defaults.Pointer(&v.DefaultMode, corev1.SecretVolumeSourceDefaultMode)
	}
	if v := source.ConfigMap; v != nil {
		defaults.Pointer(&v.DefaultMode, corev1.ConfigMapVolumeSourceDefaultMode)
	}
	if v := source.DownwardAPI; v != nil {
		defaults.Pointer(&v.DefaultMode, corev1.DownwardAPIVolumeSourceDefaultMode)
		defaultDownward(v.Items)
	}
	if v := source.Projected; v != nil {
		defaultProjected(v)
	}
	if v := source.Image; v != nil {
		defaults.Value(&v.PullPolicy, pullPolicy(v.Reference))
	}
	if v := source.Ephemeral; v != nil && v.VolumeClaimTemplate != nil {
		spec := &v.VolumeClaimTemplate.Spec
		defaults.Pointer(&spec.VolumeMode, corev1.PersistentVolumeFilesystem)
		roundUp(spec.Resources.Limits, spec.Resources.Requests)
	}
	defaultNetworkVolume(source)
}

func defaultDownward(items []corev1.DownwardAPIVolumeFile) {
	for i := range items {
		defaultFieldRef(items[i].FieldRef)
	}
}

func defaultProjected(volume *corev1.ProjectedVolumeSource) {
	defaults.Pointer(&volume.DefaultMode, corev1.ProjectedVolumeSourceDefaultMode)
	for i := range volume.Sources {
		source := &volume.Sources[i]
		if source.DownwardAPI != nil {
			defaultDownward(source.DownwardAPI.Items)
		}
		if source.ServiceAccountToken != nil {
			defaults.Pointer(&source.ServiceAccountToken.ExpirationSeconds, 3600)
		}
	}
}

// defaultNetworkVolume applies the defaults of sources that CSI drivers have replaced.
func defaultNetworkVolume(source *corev1.VolumeSource) {
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
