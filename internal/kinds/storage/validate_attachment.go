package storage

import (
	"math"
	"unicode/utf8"

	"github.com/kapok-dev/kapok/internal/kinds/rule"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	maxAttachmentSize   = 256 << 10
	maxVolumeErrorBytes = 1024
)

// validateVolumeAttachment returns the errors of an attachment, or of its status.
func validateVolumeAttachment(a, old *storagev1.VolumeAttachment) field.ErrorList {
	spec, path := &a.Spec, field.NewPath("spec")
	all := validateAttacher(spec.Attacher, old == nil, path.Child("attacher"))
	all = append(all, validateAttachedSource(&spec.Source, path.Child("source"))...)
	all = append(all, rule.Invalid(path.Child("nodeName"), spec.NodeName, apivalidation.NameIsDNSSubdomain(spec.NodeName, false))...)
	all = append(all, validateAttachmentStatus(&a.Status, field.NewPath("status"))...)
	if name := spec.Source.PersistentVolumeName; name != nil {
		all = append(all, rule.Invalid(field.NewPath("spec.source.persistentVolumeName"), *name, apivalidation.NameIsDNSSubdomain(*name, false))...)
	}
	if old != nil && !equality.Semantic.DeepEqual(a.Spec, old.Spec) {
		all = append(all, rule.Immutable(path)...)
	}
	return all
}

// validateAttacher returns the errors of an attacher's name, which have other messages for new
// objects.
func validateAttacher(name string, isNew bool, at *field.Path) field.ErrorList {
	if !isNew || name == "" {
		return rule.ValidateDriverName(name, at)
	}
	all := rule.Invalid(at, name, content.IsDNS1123SubdomainCaseless(name))
	if utf8.RuneCountInString(name) > rule.MaxDriverName {
		all = append(all, field.TooLongCharacters(at, name, rule.MaxDriverName))
	}
	return all
}

func validateAttachedSource(source *storagev1.VolumeAttachmentSource, at *field.Path) field.ErrorList {
	const exactlyOne = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
	switch inline, name := source.InlineVolumeSpec, source.PersistentVolumeName; {
	case inline == nil && name == nil:
		return field.ErrorList{field.Required(at, exactlyOne)}
	case inline != nil && name != nil:
		return field.ErrorList{field.Forbidden(at, exactlyOne)}
	case inline != nil:
		return validateInlineVolume(inline, at.Child("inlineVolumeSpec"))
	case *name == "":
		return field.ErrorList{field.Required(at.Child("persistentVolumeName"), "must specify non empty persistentVolumeName")}
	}
	return nil
}

// validateInlineVolume returns the errors of a volume without an object, which pods refer to
// directly.
func validateInlineVolume(spec *corev1.PersistentVolumeSpec, at *field.Path) field.ErrorList {
	const context = " in the context of inline volumes"
	var all field.ErrorList
	refuse := func(set bool, name string) {
		if set {
			all = append(all, field.Forbidden(at.Child(name), "may not be specified"+context))
		}
	}
	refuse(spec.ClaimRef != nil, "claimRef")
	refuse(len(spec.Capacity) > 0, "capacity")
	if spec.CSI == nil {
		all = append(all, field.Required(at.Child("csi"), "has to be specified"+context))
	}
	if len(spec.AccessModes) == 0 {
		all = append(all, field.Required(at.Child("accessModes"), ""))
	}
	all = append(all, validateAccessModes(spec.AccessModes, at.Child("accessModes"))...)
	if policy := spec.PersistentVolumeReclaimPolicy; policy != "" && policy != corev1.PersistentVolumeReclaimRetain {
		all = append(all, field.Forbidden(at.Child("persistentVolumeReclaimPolicy"), "may only be "+string(corev1.PersistentVolumeReclaimRetain)+context))
	}
	refuse(spec.NodeAffinity != nil, "nodeAffinity")
	all = append(all, validatePersistentSource(spec, "", at)...)
	refuse(spec.StorageClassName != "", "storageClassName")
	if mode := spec.VolumeMode; mode != nil && *mode != corev1.PersistentVolumeFilesystem {
		all = append(all, field.Forbidden(at.Child("volumeMode"), "may not specify volumeMode other than "+string(corev1.PersistentVolumeFilesystem)+context))
	}
	return all
}

func validateAttachmentStatus(status *storagev1.VolumeAttachmentStatus, at *field.Path) field.ErrorList {
	var all field.ErrorList
	if textSize(status.AttachmentMetadata) > maxAttachmentSize {
		all = append(all, field.TooLong(at.Child("attachmentMetadata"), "", maxAttachmentSize))
	}
	all = append(all, validateVolumeError(status.AttachError, at.Child("attachError"))...)
	return append(all, validateVolumeError(status.DetachError, at.Child("detachError"))...)
}

func validateVolumeError(e *storagev1.VolumeError, at *field.Path) field.ErrorList {
	if e == nil {
		return nil
	}
	var all field.ErrorList
	if len(e.Message) > maxVolumeErrorBytes {
		all = append(all, field.TooLong(at.Child("message"), "", maxVolumeErrorBytes))
	}
	if code := e.ErrorCode; code != nil && *code < 0 {
		all = append(all, field.Invalid(at.Child("errorCode"), *code, validation.InclusiveRangeError(0, math.MaxInt32)))
	}
	return all
}
