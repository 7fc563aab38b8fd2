package pods

import (
	"fmt"

	"github.com/kapok-dev/kapok/internal/kinds/rule"
	"github.com/kapok-dev/kapok/internal/kinds/storage"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const modeMessage = "must be a number between 0 and 0777 (octal), both inclusive"

// validateVolumes returns the valid volumes by name, and the errors of all. For templates, meta is
// nil.
func validateVolumes(volumes []corev1.Volume, meta *metav1.ObjectMeta, at *field.Path) (volumeSet, field.ErrorList) {
	var all field.ErrorList
	valid, made := volumeSet{}, map[string]bool{}
	for i := range volumes {
		if meta != nil && meta.Name != "" && volumes[i].Ephemeral != nil {
			made[meta.Name+"-"+volumes[i].Name] = true
		}
	}
	for i := range volumes {
		volume := &volumes[i]
		problems := validateVolumeSource(volume, meta, at.Index(i))
		if volume.Name == "" {
			problems = append(problems, field.Required(at.Index(i).Child("name"), ""))
		} else {
			problems = append(problems, rule.ValidateLabel(at.Index(i).Child("name"), volume.Name)...)
		}
		if _, twice := valid[volume.Name]; twice {
			problems = append(problems, field.Duplicate(at.Index(i).Child("name"), volume.Name))
		}
		if len(problems) == 0 {
			valid[volume.Name] = volume.VolumeSource
		}
		all = append(all, problems...)
		if claim := volume.PersistentVolumeClaim; claim != nil && made[claim.ClaimName] {
			all = append(all, field.Invalid(at.Index(i).Child("persistentVolumeClaim", "claimName"), claim.ClaimName,
				"must not reference a PVC that gets created for an ephemeral volume"))
		}
	}
	return valid, all
}

// volumeSource is one of the sources that a volume may have.
type volumeSource struct {
	name     string // the name in the error for a second source
	set      bool
	validate func() field.ErrorList
}

func source[T any](v *T, name string, validate func(v *T, at *field.Path) field.ErrorList, at *field.Path) volumeSource {
	return volumeSource{name, v != nil, func() field.ErrorList { return validate(v, at.Child(name)) }}
}

// calledIn sets the name that Kubernetes uses only in the error for a second source.
func (s volumeSource) calledIn(name string) volumeSource {
	s.name = name
	return s
}

// validateVolumeSource returns the errors of the first source that is set, and rejects further
// ones.
func validateVolumeSource(v *corev1.Volume, meta *metav1.ObjectMeta, at *field.Path) field.ErrorList {
	var all field.ErrorList
	found := false
	for _, s := range []volumeSource{
		source(v.EmptyDir, "emptyDir", validateEmptyDir, at),
		source(v.HostPath, "hostPath", storage.ValidateHostPath, at),
		source(v.GitRepo, "gitRepo", storage.ValidateGitRepo, at),
		source(v.GCEPersistentDisk, "persistentDisk", storage.ValidateGCEDisk, at).calledIn("gcePersistentDisk"),
		source(v.AWSElasticBlockStore, "awsElasticBlockStore", storage.ValidateAWSDisk, at),
		source(v.Secret, "secret", validateSecretVolume, at),
		source(v.NFS, "nfs", storage.ValidateNFS, at),
		source(v.ISCSI, "iscsi", func(s *corev1.ISCSIVolumeSource, path *field.Path) field.ErrorList {
			return append(storage.ValidateISCSIVolume(s, path), storage.ValidateISCSISession(s, v.Name, at)...)
		}, at),
		source(v.Glusterfs, "glusterfs", storage.ValidateGlusterfsVolume, at),
		source(v.Flocker, "flocker", storage.ValidateFlocker, at),
		source(v.PersistentVolumeClaim, "persistentVolumeClaim", validateClaimVolume, at),
		source(v.RBD, "rbd", storage.ValidateRBD, at),
		source(v.Cinder, "cinder", storage.ValidateCinder, at),
		source(v.CephFS, "cephfs", storage.ValidateCephFS, at).calledIn("cephFS"),
		source(v.Quobyte, "quobyte", storage.ValidateQuobyte, at),
		source(v.DownwardAPI, "downwardAPI", validateDownwardVolume, at).calledIn("downwarAPI"),
		source(v.FC, "fc", storage.ValidateFC, at),
		source(v.FlexVolume, "flexVolume", storage.ValidateFlexVolume, at),
		source(v.ConfigMap, "configMap", validateConfigMapVolume, at),
		source(v.AzureFile, "azureFile", storage.ValidateAzureFileVolume, at),
		source(v.VsphereVolume, "vsphereVolume", storage.ValidateVsphere, at),
		source(v.PhotonPersistentDisk, "photonPersistentDisk", storage.ValidatePhoton, at),
		source(v.PortworxVolume, "portworxVolume", storage.ValidatePortworx, at),
		source(v.AzureDisk, "azureDisk", storage.ValidateAzureDisk, at),
		source(v.StorageOS, "storageos", storage.ValidateStorageOSVolume, at),
		source(v.Projected, "projected", validateProjected, at),
		source(v.ScaleIO, "scaleIO", storage.ValidateScaleIO, at),
		source(v.CSI, "csi", storage.ValidateCSIVolume, at),
		source(v.Ephemeral, "ephemeral", func(s *corev1.EphemeralVolumeSource, path *field.Path) field.ErrorList {
			return append(storage.ValidateEphemeralVolume(s, path), validateEphemeralName(v.Name, meta, at)...)
		}, at),
		source(v.Image, "image", validateImageVolume, at),
	} {
		switch {
		case !s.set:
		case found:
			all = append(all, field.Forbidden(at.Child(s.name), "may not specify more than 1 volume type"))
		default:
			found = true
			all = append(all, s.validate()...)
		}
	}
	if !found {
		return field.ErrorList{field.Required(at, "must specify a volume type")}
	}
	return all
}

// validateEphemeralName returns the errors of the name of the claim that is generated for a volume.
func validateEphemeralName(volume string, meta *metav1.ObjectMeta, at *field.Path) field.ErrorList {
	var all field.ErrorList
	if meta == nil || meta.Name == "" || volume == "" {
		return nil
	}
	name := meta.Name + "-" + volume
	for _, problem := range apivalidation.NameIsDNSSubdomain(name, false) {
		all = append(all, field.Invalid(at.Child("name"), volume, fmt.Sprintf("PVC name %q: %v", name, problem)))
	}
	return all
}

func validateEmptyDir(s *corev1.EmptyDirVolumeSource, at *field.Path) field.ErrorList {
	if s.SizeLimit != nil && s.SizeLimit.Sign() < 0 {
		return field.ErrorList{field.Forbidden(at.Child("sizeLimit"), "SizeLimit field must be a valid resource quantity")}
	}
	return nil
}

func validateSecretVolume(s *corev1.SecretVolumeSource, at *field.Path) field.ErrorList {
	all := rule.RequireText(s.SecretName, at.Child("secretName"))
	all = append(all, validateMode(s.DefaultMode, at.Child("defaultMode"))...)
	return append(all, validateItems(s.Items, at.Child("items"))...)
}

func validateConfigMapVolume(s *corev1.ConfigMapVolumeSource, at *field.Path) field.ErrorList {
	all := rule.RequireText(s.Name, at.Child("name"))
	all = append(all, validateMode(s.DefaultMode, at.Child("defaultMode"))...)
	return append(all, validateItems(s.Items, at.Child("items"))...)
}

func validateClaimVolume(s *corev1.PersistentVolumeClaimVolumeSource, at *field.Path) field.ErrorList {
	return rule.RequireText(s.ClaimName, at.Child("claimName"))
}

func validateImageVolume(s *corev1.ImageVolumeSource, at *field.Path) field.ErrorList {
	all := rule.RequireText(s.Reference, at.Child("reference"))
	return append(all, rule.OneOf(at.Child("pullPolicy"), s.PullPolicy, corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever)...)
}

func validateItems(items []corev1.KeyToPath, at *field.Path) field.ErrorList {
	var all field.ErrorList
	for i := range items {
		all = append(all, validateItem(&items[i], at.Index(i))...)
	}
	return all
}

func validateItem(item *corev1.KeyToPath, at *field.Path) field.ErrorList {
	all := rule.RequireText(item.Key, at.Child("key"))
	all = append(all, rule.RequireText(item.Path, at.Child("path"))...)
	all = append(all, validateFile(item.Path, at.Child("path"))...)
	return append(all, validateMode(item.Mode, at.Child("mode"))...)
}

func validateMode(mode *int32, at *field.Path) field.ErrorList {
	if mode == nil || *mode >= 0 && *mode <= 0o777 {
		return nil
	}
	return field.ErrorList{field.Invalid(at, *mode, modeMessage)}
}
