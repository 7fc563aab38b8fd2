package storage

import (
	"github.com/kapok-dev/kapok/internal/kinds/rule"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validatePersistentSource returns the errors of the first source that is set, and rejects further
// ones.
func validatePersistentSource(spec *corev1.PersistentVolumeSpec, name string, at *field.Path) field.ErrorList {
	var all field.ErrorList
	set := 0
	for _, source := range persistentSources(spec, name, at) {
		switch {
		case !source.set:
			continue
		case set == 0 || source.name == "flexVolume": // Kubernetes does not count it
			all = append(all, source.judge(at.Child(source.at))...)
		default:
			all = append(all, field.Forbidden(at.Child(source.name), "may not specify more than 1 volume type"))
		}
		set++
	}
	if set == 0 {
		all = append(all, field.Required(at, "must specify a volume type"))
	}
	return all
}

// persistentSource is a source of a volume, with its path in the error for a second source and that
// of its own errors.
type persistentSource struct {
	name, at string
	set      bool
	judge    func(at *field.Path) field.ErrorList
}

// persistentSources returns the sources in Kubernetes' order; above is the path of all.
func persistentSources(spec *corev1.PersistentVolumeSpec, name string, above *field.Path) []persistentSource {
	s := &spec.PersistentVolumeSource
	return []persistentSource{
		{"hostPath", "hostPath", s.HostPath != nil, func(at *field.Path) field.ErrorList { return ValidateHostPath(s.HostPath, at) }},
		{"gcePersistentDisk", "persistentDisk", s.GCEPersistentDisk != nil, func(at *field.Path) field.ErrorList {
			return append(rule.RequireText(s.GCEPersistentDisk.PDName, at.Child("pdName")), validatePartition(s.GCEPersistentDisk.Partition, at.Child("partition"))...)
		}},
		{"awsElasticBlockStore", "awsElasticBlockStore", s.AWSElasticBlockStore != nil, func(at *field.Path) field.ErrorList {
			return append(rule.RequireText(s.AWSElasticBlockStore.VolumeID, at.Child("volumeID")), validatePartition(s.AWSElasticBlockStore.Partition, at.Child("partition"))...)
		}},
		{"glusterfs", "glusterfs", s.Glusterfs != nil, func(at *field.Path) field.ErrorList { return validatePersistentGlusterfs(s.Glusterfs, at) }},
		{"flocker", "flocker", s.Flocker != nil, func(at *field.Path) field.ErrorList { return ValidateFlocker(s.Flocker, at) }},
		{"nfs", "nfs", s.NFS != nil, func(at *field.Path) field.ErrorList { return ValidateNFS(s.NFS, at) }},
		{"rbd", "rbd", s.RBD != nil, func(at *field.Path) field.ErrorList {
			return append(requireMonitors(s.RBD.CephMonitors, at), rule.RequireText(s.RBD.RBDImage, at.Child("image"))...)
		}},
		{"quobyte", "quobyte", s.Quobyte != nil, func(at *field.Path) field.ErrorList { return ValidateQuobyte(s.Quobyte, at) }},
		{"cephFS", "cephfs", s.CephFS != nil, func(at *field.Path) field.ErrorList { return requireMonitors(s.CephFS.Monitors, at) }},
		{"iscsi", "iscsi", s.ISCSI != nil, func(at *field.Path) field.ErrorList { return validatePersistentISCSI(s.ISCSI, name, at) }},
		{"cinder", "cinder", s.Cinder != nil, func(at *field.Path) field.ErrorList {
			return append(rule.RequireText(s.Cinder.VolumeID, at.Child("volumeID")), requireSecret(s.Cinder.SecretRef, at.Child("secretRef"))...)
		}},
		{"fc", "fc", s.FC != nil, func(at *field.Path) field.ErrorList { return ValidateFC(s.FC, at) }},
		{"flexVolume", "flexVolume", s.FlexVolume != nil, func(at *field.Path) field.ErrorList { return validatePersistentFlex(s.FlexVolume, at) }},
		{"azureFile", "azureFile", s.AzureFile != nil, func(at *field.Path) field.ErrorList { return validatePersistentAzureFile(s.AzureFile, at) }},
		{"vsphereVolume", "vsphereVolume", s.VsphereVolume != nil, func(at *field.Path) field.ErrorList {
			return rule.RequireText(s.VsphereVolume.VolumePath, at.Child("volumePath"))
		}},
		{"photonPersistentDisk", "photonPersistentDisk", s.PhotonPersistentDisk != nil, func(at *field.Path) field.ErrorList {
			return rule.RequireText(s.PhotonPersistentDisk.PdID, at.Child("pdID"))
		}},
		{"portworxVolume", "portworxVolume", s.PortworxVolume != nil, func(at *field.Path) field.ErrorList {
			return rule.RequireText(s.PortworxVolume.VolumeID, at.Child("volumeID"))
		}},
		{"azureDisk", "azureDisk", s.AzureDisk != nil, func(at *field.Path) field.ErrorList { return ValidateAzureDisk(s.AzureDisk, at) }},
		{"scaleIO", "scaleIO", s.ScaleIO != nil, func(at *field.Path) field.ErrorList {
			all := append(rule.RequireText(s.ScaleIO.Gateway, at.Child("gateway")), rule.RequireText(s.ScaleIO.System, at.Child("system"))...)
			return append(all, rule.RequireText(s.ScaleIO.VolumeName, at.Child("volumeName"))...)
		}},
		{"local", "local", s.Local != nil, func(at *field.Path) field.ErrorList {
			all := append(rule.RequireText(s.Local.Path, at.Child("path")), rule.ValidateNoBacksteps(s.Local.Path, at.Child("path"))...)
			if spec.NodeAffinity == nil { // a disk of one node needs the affinity to that node
				all = append(all, field.Required(above.Child("nodeAffinity"), "Local volume requires node affinity"))
			}
			return all
		}},
		{"storageos", "storageos", s.StorageOS != nil, func(at *field.Path) field.ErrorList { return validatePersistentStorageOS(s.StorageOS, at) }},
		{"csi", "csi", s.CSI != nil, func(at *field.Path) field.ErrorList { return validateCSISource(s.CSI, at) }},
	}
}

func validateCSISource(csi *corev1.CSIPersistentVolumeSource, at *field.Path) field.ErrorList {
	all := rule.ValidateDriverName(csi.Driver, at.Child("driver"))
	all = append(all, rule.RequireText(csi.VolumeHandle, at.Child("volumeHandle"))...)
	for _, ref := range []struct {
		name   string
		secret *corev1.SecretReference
	}{
		{"controllerPublishSecretRef", csi.ControllerPublishSecretRef},
		{"controllerExpandSecretRef", csi.ControllerExpandSecretRef},
		{"nodePublishSecretRef", csi.NodePublishSecretRef},
		{"nodeExpandSecretRef", csi.NodeExpandSecretRef},
	} {
		all = append(all, requireSecret(ref.secret, at.Child(ref.name))...)
		if ref.secret != nil && ref.secret.Name != "" {
			all = append(all, rule.Invalid(at.Child(ref.name, "name"), ref.secret.Name, apivalidation.NameIsDNSSubdomain(ref.secret.Name, false))...)
		}
		if ref.secret != nil && ref.secret.Namespace != "" {
			all = append(all, rule.ValidateLabel(at.Child(ref.name, "namespace"), ref.secret.Namespace)...)
		}
	}
	return all
}

func validatePersistentAzureFile(azure *corev1.AzureFilePersistentVolumeSource, at *field.Path) field.ErrorList {
	all := append(rule.RequireText(azure.SecretName, at.Child("secretName")), rule.RequireText(azure.ShareName, at.Child("shareName"))...)
	if azure.SecretNamespace != nil {
		all = append(all, rule.RequireText(*azure.SecretNamespace, at.Child("secretNamespace"))...)
	}
	return all
}

func requireMonitors(monitors []string, at *field.Path) field.ErrorList {
	if len(monitors) > 0 {
		return nil
	}
	return field.ErrorList{field.Required(at.Child("monitors"), "")}
}

func requireSecret(ref *corev1.SecretReference, at *field.Path) field.ErrorList {
	if ref == nil {
		return nil
	}
	return append(rule.RequireText(ref.Name, at.Child("name")), rule.RequireText(ref.Namespace, at.Child("namespace"))...)
}
