package defaults

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// defaultVolume makes a volume without a source an empty directory, and fills in
// what sources leave open.
func defaultVolume(volume *corev1.Volume) {
	source := &volume.VolumeSource
	if ptr.AllPtrFieldsNil(source) {
		source.EmptyDir = &corev1.EmptyDirVolumeSource{}
	}
	if v := source.HostPath; v != nil {
		set(&v.Type, corev1.HostPathUnset)
	}
	if v := source.Secret; v != nil {
		set(&v.DefaultMode, corev1.SecretVolumeSourceDefaultMode)
	}
	if v := source.ConfigMap; v != nil {
		set(&v.DefaultMode, corev1.ConfigMapVolumeSourceDefaultMode)
	}
	if v := source.DownwardAPI; v != nil {
		set(&v.DefaultMode, corev1.DownwardAPIVolumeSourceDefaultMode)
		defaultDownward(v.Items)
	}
	if v := source.Projected; v != nil {
		defaultProjected(v)
	}
	if v := source.Image; v != nil {
		fill(&v.PullPolicy, pullPolicy(v.Reference))
	}
	if v := source.Ephemeral; v != nil && v.VolumeClaimTemplate != nil {
		spec := &v.VolumeClaimTemplate.Spec
		set(&spec.VolumeMode, corev1.PersistentVolumeFilesystem)
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
	set(&volume.DefaultMode, corev1.ProjectedVolumeSourceDefaultMode)
	for i := range volume.Sources {
		source := &volume.Sources[i]
		if source.DownwardAPI != nil {
			defaultDownward(source.DownwardAPI.Items)
		}
		if source.ServiceAccountToken != nil {
			set(&source.ServiceAccountToken.ExpirationSeconds, 3600)
		}
	}
}

// defaultNetworkVolume is for the sources that drivers have replaced since.
func defaultNetworkVolume(source *corev1.VolumeSource) {
	if v := source.ISCSI; v != nil {
		fill(&v.ISCSIInterface, "default")
	}
	if v := source.RBD; v != nil {
		fill(&v.RBDPool, "rbd")
		fill(&v.RadosUser, "admin")
		fill(&v.Keyring, "/etc/ceph/keyring")
	}
	if v := source.AzureDisk; v != nil {
		set(&v.CachingMode, corev1.AzureDataDiskCachingReadWrite)
		set(&v.FSType, "ext4")
		set(&v.ReadOnly, false)
		set(&v.Kind, corev1.AzureSharedBlobDisk)
	}
	if v := source.ScaleIO; v != nil {
		fill(&v.StorageMode, "ThinProvisioned")
		fill(&v.FSType, "xfs")
	}
}
