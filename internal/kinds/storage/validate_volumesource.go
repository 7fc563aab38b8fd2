package storage

import (
	"maps"
	"net"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/internal/kinds/rule"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateRelative rejects absolute paths and paths with "..".
func ValidateRelative(target string, at *field.Path) field.ErrorList {
	var all field.ErrorList
	if path.IsAbs(target) {
		all = append(all, field.Invalid(at, target, "must be a relative path"))
	}
	return append(all, rule.ValidateNoBacksteps(target, at)...)
}

// ValidateHostPath returns the errors of a directory or file of the node.
func ValidateHostPath(host *corev1.HostPathVolumeSource, at *field.Path) field.ErrorList {
	if host.Path == "" {
		return field.ErrorList{field.Required(at.Child("path"), "")}
	}
	all := rule.ValidateNoBacksteps(host.Path, at.Child("path"))
	if host.Type == nil {
		return all
	}
	return append(all, rule.Supported(at.Child("type"), *host.Type, corev1.HostPathUnset,
		corev1.HostPathBlockDev, corev1.HostPathCharDev, corev1.HostPathDirectory, corev1.HostPathDirectoryOrCreate,
		corev1.HostPathFile, corev1.HostPathFileOrCreate, corev1.HostPathSocket)...)
}

// iscsiNames are the patterns of the names of iSCSI targets and initiators, by format.
var iscsiNames = map[string]func() *regexp.Regexp{
	"iqn": rule.Pattern(`iqn\.\d{4}-\d{2}\.([[:alnum:]-.]+)(:[^,;*&$|\s]+)$`),
	"eui": rule.Pattern(`^eui.[[:alnum:]]{16}$`),
	"naa": rule.Pattern(`^naa.[[:alnum:]]{32}$`),
}

func validateISCSIQualified(name string, at *field.Path) field.ErrorList {
	format := iscsiNames[name[:min(len(name), 3)]]
	switch {
	case format == nil:
		return field.ErrorList{field.Invalid(at, name, "must be valid format starting with iqn, eui, or naa")}
	case !format().MatchString(name):
		return field.ErrorList{field.Invalid(at, name, "must be valid format")}
	}
	return nil
}

// ValidateISCSIVolume returns the errors of an iSCSI volume.
func ValidateISCSIVolume(s *corev1.ISCSIVolumeSource, at *field.Path) field.ErrorList {
	all := rule.RequireText(s.TargetPortal, at.Child("targetPortal"))
	if s.IQN == "" {
		all = append(all, field.Required(at.Child("iqn"), ""))
	} else {
		all = append(all, validateISCSIQualified(s.IQN, at.Child("iqn"))...)
	}
	all = append(all, validateByte(s.Lun, at.Child("lun"))...)
	if (s.DiscoveryCHAPAuth || s.SessionCHAPAuth) && s.SecretRef == nil {
		all = append(all, field.Required(at.Child("secretRef"), ""))
	}
	if s.InitiatorName != nil {
		all = append(all, validateISCSIQualified(*s.InitiatorName, at.Child("initiatorname"))...)
	}
	return all
}

// ValidateISCSISession returns the error of an initiator name with which the name of the session,
// volume:portal, is too long.
func ValidateISCSISession(s *corev1.ISCSIVolumeSource, volume string, at *field.Path) field.ErrorList {
	if s.InitiatorName == nil || len(volume+":"+s.TargetPortal) <= 64 {
		return nil
	}
	return field.ErrorList{field.Invalid(at.Child("name"), volume,
		"Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.")}
}

func validateByte(n int32, at *field.Path) field.ErrorList {
	if n < 0 || n > 255 {
		return field.ErrorList{field.Invalid(at, n, validation.InclusiveRangeError(0, 255))}
	}
	return nil
}

func validatePartition(n int32, at *field.Path) field.ErrorList {
	if n < 0 || n > 255 {
		return field.ErrorList{field.Invalid(at, n, validation.InclusiveRangeError(1, 255))}
	}
	return nil
}

// ValidateGitRepo returns the errors of a volume that is cloned from Git.
func ValidateGitRepo(s *corev1.GitRepoVolumeSource, at *field.Path) field.ErrorList {
	return append(rule.RequireText(s.Repository, at.Child("repository")), ValidateRelative(s.Directory, at.Child("directory"))...)
}

// ValidateGCEDisk returns the errors of a disk of Google Compute Engine.
func ValidateGCEDisk(s *corev1.GCEPersistentDiskVolumeSource, at *field.Path) field.ErrorList {
	return append(rule.RequireText(s.PDName, at.Child("pdName")), validatePartition(s.Partition, at.Child("partition"))...)
}

// ValidateAWSDisk returns the errors of an Elastic Block Store volume.
func ValidateAWSDisk(s *corev1.AWSElasticBlockStoreVolumeSource, at *field.Path) field.ErrorList {
	return append(rule.RequireText(s.VolumeID, at.Child("volumeID")), validatePartition(s.Partition, at.Child("partition"))...)
}

// ValidateNFS returns the errors of an NFS volume.
func ValidateNFS(s *corev1.NFSVolumeSource, at *field.Path) field.ErrorList {
	all := rule.RequireText(s.Server, at.Child("server"))
	all = append(all, rule.RequireText(s.Path, at.Child("path"))...)
	if !path.IsAbs(s.Path) {
		all = append(all, field.Invalid(at.Child("path"), s.Path, "must be an absolute path"))
	}
	return all
}

// ValidateGlusterfsVolume returns the errors of a GlusterFS volume.
func ValidateGlusterfsVolume(s *corev1.GlusterfsVolumeSource, at *field.Path) field.ErrorList {
	return append(rule.RequireText(s.EndpointsName, at.Child("endpoints")), rule.RequireText(s.Path, at.Child("path"))...)
}

// ValidateFlocker returns the errors of a Flocker volume, which has a name or a UUID.
func ValidateFlocker(s *corev1.FlockerVolumeSource, at *field.Path) field.ErrorList {
	var all field.ErrorList
	switch {
	case s.DatasetName == "" && s.DatasetUUID == "":
		all = append(all, field.Required(at, "one of datasetName and datasetUUID is required"))
	case s.DatasetName != "" && s.DatasetUUID != "":
		all = append(all, field.Invalid(at, "resource", "datasetName and datasetUUID can not be specified simultaneously"))
	}
	if strings.Contains(s.DatasetName, "/") {
		all = append(all, field.Invalid(at.Child("datasetName"), s.DatasetName, "must not contain '/'"))
	}
	return all
}

// ValidateRBD returns the errors of a Ceph block device.
func ValidateRBD(s *corev1.RBDVolumeSource, at *field.Path) field.ErrorList {
	var all field.ErrorList
	if len(s.CephMonitors) == 0 {
		all = append(all, field.Required(at.Child("monitors"), ""))
	}
	return append(all, rule.RequireText(s.RBDImage, at.Child("image"))...)
}

// ValidateCinder returns the errors of an OpenStack Cinder volume.
func ValidateCinder(s *corev1.CinderVolumeSource, at *field.Path) field.ErrorList {
	return append(rule.RequireText(s.VolumeID, at.Child("volumeID")), requireRef(s.SecretRef, at.Child("secretRef"))...)
}

// ValidateCephFS returns the errors of a CephFS volume.
func ValidateCephFS(s *corev1.CephFSVolumeSource, at *field.Path) field.ErrorList {
	if len(s.Monitors) == 0 {
		return field.ErrorList{field.Required(at.Child("monitors"), "")}
	}
	return nil
}

// ValidateQuobyte returns the errors of a Quobyte volume.
func ValidateQuobyte(s *corev1.QuobyteVolumeSource, at *field.Path) field.ErrorList {
	var all field.ErrorList
	const pairs = "must be a host:port pair or multiple pairs separated by commas"
	switch {
	case s.Registry == "":
		all = append(all, field.Required(at.Child("registry"), pairs))
	case len(s.Tenant) > 64:
		all = append(all, field.Required(at.Child("tenant"), "must be a UUID and may not exceed a length of 64 characters"))
	default:
		for pair := range strings.SplitSeq(s.Registry, ",") {
			if _, _, err := net.SplitHostPort(pair); err != nil {
				all = append(all, field.Invalid(at.Child("registry"), s.Registry, pairs))
			}
		}
	}
	return append(all, rule.RequireText(s.Volume, at.Child("volume"))...)
}

// ValidateFC returns the errors of a Fibre Channel volume.
func ValidateFC(s *corev1.FCVolumeSource, at *field.Path) field.ErrorList {
	var all field.ErrorList
	names := at.Child("targetWWNs")
	switch {
	case len(s.TargetWWNs) == 0 && len(s.WWIDs) == 0:
		all = append(all, field.Required(names, "must specify either targetWWNs or wwids, but not both"))
	case len(s.TargetWWNs) > 0 && len(s.WWIDs) > 0:
		all = append(all, field.Invalid(names, s.TargetWWNs, "targetWWNs and wwids can not be specified simultaneously"))
	}
	switch {
	case len(s.TargetWWNs) == 0:
	case s.Lun == nil:
		all = append(all, field.Required(at.Child("lun"), "lun is required if targetWWNs is specified"))
	default:
		all = append(all, validateByte(*s.Lun, at.Child("lun"))...)
	}
	return all
}

// ValidateFlexVolume returns the errors of a FlexVolume.
func ValidateFlexVolume(s *corev1.FlexVolumeSource, at *field.Path) field.ErrorList {
	all := rule.RequireText(s.Driver, at.Child("driver"))
	for _, key := range slices.Sorted(maps.Keys(s.Options)) {
		prefix, _, _ := strings.Cut(key, "/")
		if domain := "." + strings.ToLower(prefix); strings.HasSuffix(domain, ".kubernetes.io") || strings.HasSuffix(domain, ".k8s.io") {
			all = append(all, field.Invalid(at.Child("options").Key(key), key, "kubernetes.io and k8s.io namespaces are reserved"))
		}
	}
	return all
}

// ValidateAzureFileVolume returns the errors of an Azure file share.
func ValidateAzureFileVolume(s *corev1.AzureFileVolumeSource, at *field.Path) field.ErrorList {
	return append(rule.RequireText(s.SecretName, at.Child("secretName")), rule.RequireText(s.ShareName, at.Child("shareName"))...)
}

// ValidateAzureDisk returns the errors of an Azure disk.
func ValidateAzureDisk(s *corev1.AzureDiskVolumeSource, at *field.Path) field.ErrorList {
	all := rule.RequireText(s.DiskName, at.Child("diskName"))
	all = append(all, rule.RequireText(s.DataDiskURI, at.Child("diskURI"))...)
	if mode := s.CachingMode; mode != nil {
		all = append(all, rule.Supported(at.Child("cachingMode"), *mode,
			corev1.AzureDataDiskCachingNone, corev1.AzureDataDiskCachingReadOnly, corev1.AzureDataDiskCachingReadWrite)...)
	}
	if s.Kind == nil {
		return all
	}
	all = append(all, rule.Supported(at.Child("kind"), *s.Kind, corev1.AzureDedicatedBlobDisk, corev1.AzureManagedDisk, corev1.AzureSharedBlobDisk)...)
	form := "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
	start := "https://"
	if *s.Kind == corev1.AzureManagedDisk {
		form = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
		start = "/subscriptions/"
	}
	if !strings.HasPrefix(s.DataDiskURI, start) {
		all = append(all, field.NotSupported(at.Child("diskURI"), s.DataDiskURI, []string{form}))
	}
	return all
}

// ValidateVsphere returns the errors of a vSphere disk.
func ValidateVsphere(s *corev1.VsphereVirtualDiskVolumeSource, at *field.Path) field.ErrorList {
	return rule.RequireText(s.VolumePath, at.Child("volumePath"))
}

// ValidatePhoton returns the errors of a Photon disk.
func ValidatePhoton(s *corev1.PhotonPersistentDiskVolumeSource, at *field.Path) field.ErrorList {
	return rule.RequireText(s.PdID, at.Child("pdID"))
}

// ValidatePortworx returns the errors of a Portworx volume.
func ValidatePortworx(s *corev1.PortworxVolumeSource, at *field.Path) field.ErrorList {
	return rule.RequireText(s.VolumeID, at.Child("volumeID"))
}

// ValidateStorageOSVolume returns the errors of a StorageOS volume.
func ValidateStorageOSVolume(s *corev1.StorageOSVolumeSource, at *field.Path) field.ErrorList {
	var all field.ErrorList
	if s.VolumeName == "" {
		all = append(all, field.Required(at.Child("volumeName"), ""))
	} else {
		all = append(all, rule.ValidateLabel(at.Child("volumeName"), s.VolumeName)...)
	}
	if s.VolumeNamespace != "" {
		all = append(all, rule.ValidateLabel(at.Child("volumeNamespace"), s.VolumeNamespace)...)
	}
	return append(all, requireRef(s.SecretRef, at.Child("secretRef"))...)
}

// ValidateScaleIO returns the errors of a ScaleIO volume.
func ValidateScaleIO(s *corev1.ScaleIOVolumeSource, at *field.Path) field.ErrorList {
	all := rule.RequireText(s.Gateway, at.Child("gateway"))
	all = append(all, rule.RequireText(s.System, at.Child("system"))...)
	return append(all, rule.RequireText(s.VolumeName, at.Child("volumeName"))...)
}

// ValidateCSIVolume returns the errors of a volume of a CSI driver.
func ValidateCSIVolume(s *corev1.CSIVolumeSource, at *field.Path) field.ErrorList {
	all := rule.ValidateDriverName(s.Driver, at.Child("driver"))
	if ref := s.NodePublishSecretRef; ref != nil && ref.Name != "" { // the path is that of Kubernetes
		return append(all, rule.Invalid(at.Child("name"), ref.Name, apivalidation.NameIsDNSSubdomain(ref.Name, false))...)
	}
	return append(all, requireRef(s.NodePublishSecretRef, at.Child("nodePublishSecretRef"))...)
}

// requireRef requires a reference, if set, to have a name.
func requireRef(ref *corev1.LocalObjectReference, at *field.Path) field.ErrorList {
	if ref == nil {
		return nil
	}
	return rule.RequireText(ref.Name, at.Child("name"))
}
