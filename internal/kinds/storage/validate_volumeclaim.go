package storage

import (
	"reflect"
	"strings"

	"github.com/kapok-dev/kapok/internal/kinds/rule"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateEphemeralVolume returns the errors of the template of a claim with the lifetime of its
// pod.
func ValidateEphemeralVolume(s *corev1.EphemeralVolumeSource, at *field.Path) field.ErrorList {
	at = at.Child("volumeClaimTemplate")
	if s.VolumeClaimTemplate == nil {
		return field.ErrorList{field.Required(at, "")}
	}
	all := validateTemplateMeta(&s.VolumeClaimTemplate.ObjectMeta, at.Child("metadata"))
	return append(all, validateEphemeralClaim(&s.VolumeClaimTemplate.Spec, at.Child("spec"))...)
}

// validateTemplateMeta rejects metadata other than labels and annotations.
func validateTemplateMeta(meta *metav1.ObjectMeta, at *field.Path) field.ErrorList {
	all := apivalidation.ValidateAnnotations(meta.Annotations, at.Child("annotations"))
	all = append(all, metav1validation.ValidateLabels(meta.Labels, at.Child("labels"))...)
	for f, value := range reflect.ValueOf(meta).Elem().Fields() {
		if f.Name == "Labels" || f.Name == "Annotations" || value.IsZero() {
			continue
		}
		all = append(all, field.Forbidden(at.Child(strings.ToLower(f.Name[:1])+f.Name[1:]), "cannot be set"))
	}
	return all
}

func validateEphemeralClaim(spec *corev1.PersistentVolumeClaimSpec, at *field.Path) field.ErrorList {
	var all field.ErrorList
	modes := at.Child("accessModes")
	if len(spec.AccessModes) == 0 {
		all = append(all, field.Required(modes, "at least 1 access mode is required"))
	}
	all = append(all, metav1validation.ValidateLabelSelector(spec.Selector, metav1validation.LabelSelectorValidationOptions{}, at.Child("selector"))...)
	alone, others := false, false
	for _, mode := range spec.AccessModes {
		problems := rule.Supported(modes, mode, corev1.ReadOnlyMany, corev1.ReadWriteMany, corev1.ReadWriteOnce, corev1.ReadWriteOncePod)
		all = append(all, problems...)
		alone = alone || mode == corev1.ReadWriteOncePod
		others = others || mode != corev1.ReadWriteOncePod && len(problems) == 0
	}
	if alone && others {
		all = append(all, field.Forbidden(modes, "may not use ReadWriteOncePod with other access modes"))
	}
	storage := at.Child("resources").Key(string(corev1.ResourceStorage))
	if size, ok := spec.Resources.Requests[corev1.ResourceStorage]; !ok {
		all = append(all, field.Required(storage, ""))
	} else if size.Sign() <= 0 {
		all = append(all, field.Invalid(storage, size.String(), "must be greater than zero"))
	}
	if name := spec.StorageClassName; name != nil && *name != "" {
		all = append(all, rule.Invalid(at.Child("storageClassName"), *name, apivalidation.NameIsDNSSubdomain(*name, false))...)
	}
	if mode := spec.VolumeMode; mode != nil {
		all = append(all, rule.Supported(at.Child("volumeMode"), *mode, corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem)...)
	}
	return all
}
