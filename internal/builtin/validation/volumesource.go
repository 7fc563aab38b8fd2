package validation

import (
	"maps"
	"net"
	"path"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// What iSCSI calls targets and initiators.
var iscsiNames = map[string]func() *regexp.Regexp{
	"iqn": pattern(`iqn\.\d{4}-\d{2}\.([[:alnum:]-.]+)(:[^,;*&$|\s]+)$`),
	"eui": pattern(`^eui.[[:alnum:]]{16}$`),
	"naa": pattern(`^naa.[[:alnum:]]{32}$`),
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

func validateISCSIVolume(s *corev1.ISCSIVolumeSource, at *field.Path) field.ErrorList {
	all := requireText(s.TargetPortal, at.Child("targetPortal"))
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

// validateISCSISession: nodes name sessions after the volume.
func validateISCSISession(s *corev1.ISCSIVolumeSource, volume string, at *field.Path) field.ErrorList {
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

func validateGitRepo(s *corev1.GitRepoVolumeSource, at *field.Path) field.ErrorList {
	return append(requireText(s.Repository, at.Child("repository")), validateRelative(s.Directory, at.Child("directory"))...)
}

func validateGCEDisk(s *corev1.GCEPersistentDiskVolumeSource, at *field.Path) field.ErrorList {
	return append(requireText(s.PDName, at.Child("pdName")), validatePartition(s.Partition, at.Child("partition"))...)
}

func validateAWSDisk(s *corev1.AWSElasticBlockStoreVolumeSource, at *field.Path) field.ErrorList {
	return append(requireText(s.VolumeID, at.Child("volumeID")), validatePartition(s.Partition, at.Child("partition"))...)
}

func validateNFS(s *corev1.NFSVolumeSource, at *field.Path) field.ErrorList {
	all := requireText(s.Server, at.Child("server"))
	all = append(all, requireText(s.Path, at.Child("path"))...)
	if !path.IsAbs(s.Path) {
		all = append(all, field.Invalid(at.Child("path"), s.Path, "must be an absolute path"))
	}
	return all
}

func validateGlusterfsVolume(s *corev1.GlusterfsVolumeSource, at *field.Path) field.ErrorList {
	return append(requireText(s.EndpointsName, at.Child("endpoints")), requireText(s.Path, at.Child("path"))...)
}

func validateFlocker(s *corev1.FlockerVolumeSource, at *field.Path) field.ErrorList {
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

func validateRBD(s *corev1.RBDVolumeSource, at *field.Path) field.ErrorList {
	var all field.ErrorList
	if len(s.CephMonitors) == 0 {
		all = append(all, field.Required(at.Child("monitors"), ""))
	}
	return append(all, requireText(s.RBDImage, at.Child("image"))...)
}

func validateCinder(s *corev1.CinderVolumeSource, at *field.Path) field.ErrorList {
	return append(requireText(s.VolumeID, at.Child("volumeID")), requireRef(s.SecretRef, at.Child("secretRef"))...)
}

func validateCephFS(s *corev1.CephFSVolumeSource, at *field.Path) field.ErrorList {
	if len(s.Monitors) == 0 {
		return field.ErrorList{field.Required(at.Child("monitors"), "")}
	}
	return nil
}

func validateQuobyte(s *corev1.QuobyteVolumeSource, at *field.Path) field.ErrorList {
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
	return append(all, requireText(s.Volume, at.Child("volume"))...)
}

func validateFC(s *corev1.FCVolumeSource, at *field.Path) field.ErrorList {
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

func validateFlexVolume(s *corev1.FlexVolumeSource, at *field.Path) field.ErrorList {
	all := requireText(s.Driver, at.Child("driver"))
	for _, key := range slices.Sorted(maps.Keys(s.Options)) {
		prefix, _, _ := strings.Cut(key, "/")
		if domain := "." + strings.ToLower(prefix); strings.HasSuffix(domain, ".kubernetes.io") || strings.HasSuffix(domain, ".k8s.io") {
			all = append(all, field.Invalid(at.Child("options").Key(key), key, "kubernetes.io and k8s.io namespaces are reserved"))
		}
	}
	return all
}

func validateAzureFileVolume(s *corev1.AzureFileVolumeSource, at *field.Path) field.ErrorList {
	return append(requireText(s.SecretName, at.Child("secretName")), requireText(s.ShareName, at.Child("shareName"))...)
}

func validateAzureDisk(s *corev1.AzureDiskVolumeSource, at *field.Path) field.ErrorList {
	all := requireText(s.DiskName, at.Child("diskName"))
	all = append(all, requireText(s.DataDiskURI, at.Child("diskURI"))...)
	if mode := s.CachingMode; mode != nil {
		all = append(all, supported(at.Child("cachingMode"), *mode,
			corev1.AzureDataDiskCachingNone, corev1.AzureDataDiskCachingReadOnly, corev1.AzureDataDiskCachingReadWrite)...)
	}
	if s.Kind == nil {
		return all
	}
	all = append(all, supported(at.Child("kind"), *s.Kind, corev1.AzureDedicatedBlobDisk, corev1.AzureManagedDisk, corev1.AzureSharedBlobDisk)...)
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

func validateVsphere(s *corev1.VsphereVirtualDiskVolumeSource, at *field.Path) field.ErrorList {
	return requireText(s.VolumePath, at.Child("volumePath"))
}

func validatePhoton(s *corev1.PhotonPersistentDiskVolumeSource, at *field.Path) field.ErrorList {
	return requireText(s.PdID, at.Child("pdID"))
}

func validatePortworx(s *corev1.PortworxVolumeSource, at *field.Path) field.ErrorList {
	return requireText(s.VolumeID, at.Child("volumeID"))
}

func validateStorageOSVolume(s *corev1.StorageOSVolumeSource, at *field.Path) field.ErrorList {
	var all field.ErrorList
	if s.VolumeName == "" {
		all = append(all, field.Required(at.Child("volumeName"), ""))
	} else {
		all = append(all, validateLabelled(at.Child("volumeName"), s.VolumeName)...)
	}
	if s.VolumeNamespace != "" {
		all = append(all, validateLabelled(at.Child("volumeNamespace"), s.VolumeNamespace)...)
	}
	return append(all, requireRef(s.SecretRef, at.Child("secretRef"))...)
}

func validateScaleIO(s *corev1.ScaleIOVolumeSource, at *field.Path) field.ErrorList {
	all := requireText(s.Gateway, at.Child("gateway"))
	all = append(all, requireText(s.System, at.Child("system"))...)
	return append(all, requireText(s.VolumeName, at.Child("volumeName"))...)
}

func validateCSIVolume(s *corev1.CSIVolumeSource, at *field.Path) field.ErrorList {
	all := validateDriverName(s.Driver, at.Child("driver"))
	if ref := s.NodePublishSecretRef; ref != nil && ref.Name != "" { // the path is Kubernetes'
		return append(all, invalid(at.Child("name"), ref.Name, apivalidation.NameIsDNSSubdomain(ref.Name, false))...)
	}
	return append(all, requireRef(s.NodePublishSecretRef, at.Child("nodePublishSecretRef"))...)
}

// requireRef wants a reference, if there is one, to name something.
func requireRef(ref *corev1.LocalObjectReference, at *field.Path) field.ErrorList {
	if ref == nil {
		return nil
	}
	return requireText(ref.Name, at.Child("name"))
}
