package storage

import (
	"fmt"
	"maps"
	"path"
	"slices"

	"github.com/kapok-dev/kapok/internal/kinds/rule"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validatePersistentVolume returns the errors of a volume.
func validatePersistentVolume(volume, old *corev1.PersistentVolume) field.ErrorList {
	all := validateVolumeSpec(volume, old, field.NewPath("spec"))
	all = append(all, validateMountOptionsAnnotation(volume)...)
	if old != nil {
		all = append(all, validateVolumeUpdate(&volume.Spec, &old.Spec)...)
	}
	return all
}

// validatePersistentVolumeStatus accepts any status.
func validatePersistentVolumeStatus(_, _ *corev1.PersistentVolume) field.ErrorList { return nil }

func validateVolumeSpec(volume, old *corev1.PersistentVolume, at *field.Path) field.ErrorList {
	spec := &volume.Spec
	var all field.ErrorList
	if len(spec.AccessModes) == 0 {
		all = append(all, field.Required(at.Child("accessModes"), ""))
	}
	all = append(all, validateAccessModes(spec.AccessModes, at.Child("accessModes"))...)
	all = append(all, validateCapacity(spec.Capacity, at.Child("capacity"))...)
	if policy := spec.PersistentVolumeReclaimPolicy; policy != "" {
		all = append(all, rule.OneOf(at.Child("persistentVolumeReclaimPolicy"), policy,
			corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRecycle, corev1.PersistentVolumeReclaimRetain)...)
	}
	if spec.NodeAffinity != nil {
		excused := old != nil && old.Spec.NodeAffinity != nil && hasWrongLabelValue(old.Spec.NodeAffinity.Required)
		all = append(all, validateVolumeNodes(spec.NodeAffinity, excused, at.Child("nodeAffinity"))...)
	}
	all = append(all, validatePersistentSource(spec, volume.Name, at)...)
	if spec.HostPath != nil && path.Clean(spec.HostPath.Path) == "/" && spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRecycle {
		all = append(all, field.Forbidden(at.Child("persistentVolumeReclaimPolicy"), "may not be 'recycle' for a hostPath mount of '/'"))
	}
	if name := spec.StorageClassName; name != "" {
		all = append(all, validateClassName(name, at.Child("storageClassName"))...)
	}
	all = append(all, validateVolumeMode(spec.VolumeMode, at.Child("volumeMode"))...)
	if name := spec.VolumeAttributesClassName; name != nil {
		if *name == "" {
			all = append(all, field.Required(at.Child("volumeAttributesClassName"), "an empty string is disallowed"))
		} else {
			all = append(all, validateClassName(*name, at.Child("volumeAttributesClassName"))...)
		}
		if spec.CSI == nil {
			all = append(all, field.Required(at.Child("csi"), "has to be specified when using volumeAttributesClassName"))
		}
	}
	return all
}

// validateCapacity requires the resource storage, and no other.
func validateCapacity(capacity corev1.ResourceList, at *field.Path) field.ErrorList {
	var all field.ErrorList
	if len(capacity) == 0 {
		all = append(all, field.Required(at, ""))
	}
	if _, ok := capacity[corev1.ResourceStorage]; !ok || len(capacity) > 1 {
		all = append(all, field.NotSupported(at, rule.AsInternal(capacity), []corev1.ResourceName{corev1.ResourceStorage}))
	}
	for _, name := range slices.Sorted(maps.Keys(capacity)) {
		all = append(all, validateWhole(capacity[name], at.Key(string(name)))...)
		all = append(all, rule.ValidatePositiveQuantity(capacity[name], at.Key(string(name)))...)
	}
	return all
}

// validateWhole returns the errors of a quantity's value, rounded up.
func validateWhole(quantity resource.Quantity, at *field.Path) field.ErrorList {
	if quantity.Value() < 0 {
		return field.ErrorList{field.Invalid(at, quantity.Value(), "must be a valid resource quantity")}
	}
	return nil
}

func validateAccessModes(modes []corev1.PersistentVolumeAccessMode, at *field.Path) field.ErrorList {
	supported := []corev1.PersistentVolumeAccessMode{corev1.ReadOnlyMany, corev1.ReadWriteMany, corev1.ReadWriteOnce, corev1.ReadWriteOncePod}
	var all field.ErrorList
	alone, others := false, false
	for _, mode := range modes {
		switch {
		case !slices.Contains(supported, mode):
			all = append(all, field.NotSupported(at, mode, supported))
		case mode == corev1.ReadWriteOncePod:
			alone = true
		default:
			others = true
		}
	}
	if alone && others {
		all = append(all, field.Forbidden(at, "may not use ReadWriteOncePod with other access modes"))
	}
	return all
}

func validateVolumeMode(mode *corev1.PersistentVolumeMode, at *field.Path) field.ErrorList {
	supported := []corev1.PersistentVolumeMode{corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem}
	if mode == nil || slices.Contains(supported, *mode) {
		return nil
	}
	return field.ErrorList{field.NotSupported(at, *mode, supported)}
}

func validateClassName(name string, at *field.Path) field.ErrorList {
	return rule.Invalid(at, name, apivalidation.NameIsDNSSubdomain(name, false))
}

// validateMountOptionsAnnotation rejects the annotation for sources whose plugins never supported
// it.
func validateMountOptionsAnnotation(volume *corev1.PersistentVolume) field.ErrorList {
	if _, ok := volume.Annotations[corev1.MountOptionAnnotation]; !ok {
		return nil
	}
	source := volume.Spec.PersistentVolumeSource
	source.HostPath, source.FC, source.Flocker, source.FlexVolume, source.PortworxVolume = nil, nil, nil, nil, nil
	source.ScaleIO, source.Local, source.StorageOS, source.CSI = nil, nil, nil, nil
	if source != (corev1.PersistentVolumeSource{}) {
		return nil
	}
	return field.ErrorList{field.Forbidden(field.NewPath("metadata", "annotations", corev1.MountOptionAnnotation), "may not specify mount options for this volume type")}
}

// validateVolumeUpdate rejects a changed source.
func validateVolumeUpdate(spec, old *corev1.PersistentVolumeSpec) field.ErrorList {
	var all field.ErrorList
	source := spec.PersistentVolumeSource
	if source.CSI != nil && old.CSI != nil && old.CSI.ControllerExpandSecretRef == nil { // it may be added later
		source.CSI = source.CSI.DeepCopy()
		source.CSI.ControllerExpandSecretRef = nil
	}
	if !equality.Semantic.DeepEqual(source, old.PersistentVolumeSource) {
		all = append(all, field.Forbidden(field.NewPath("spec", "persistentvolumesource"), fmt.Sprintf("spec.persistentvolumesource is immutable after creation\n%v",
			diff.Diff(rule.AsInternal(old.PersistentVolumeSource), rule.AsInternal(source)))))
	}
	all = append(all, apivalidation.ValidateImmutableField(spec.VolumeMode, old.VolumeMode, field.NewPath("volumeMode"))...)
	if before := old.NodeAffinity; before != nil && !equality.Semantic.DeepEqual(spec.NodeAffinity, withNewLabels(before, spec.NodeAffinity)) {
		all = append(all, field.Invalid(field.NewPath("nodeAffinity"), rule.AsInternal(spec.NodeAffinity),
			apivalidation.FieldImmutableErrorMsg+", except for updating from beta label to GA"))
	}
	if old.VolumeAttributesClassName != nil && spec.VolumeAttributesClassName == nil {
		all = append(all, field.Forbidden(field.NewPath("spec", "volumeAttributesClassName"), "update from non-nil value to nil is forbidden"))
	}
	return all
}
