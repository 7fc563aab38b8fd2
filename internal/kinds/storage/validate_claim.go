package storage

import (
	"fmt"
	"maps"
	"slices"

	"github.com/kapok-dev/kapok/internal/kinds/rule"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validatePersistentVolumeClaim returns the errors of a claim.
func validatePersistentVolumeClaim(claim, old *corev1.PersistentVolumeClaim) field.ErrorList {
	var before *corev1.PersistentVolumeClaimSpec
	if old != nil {
		before = &old.Spec
	}
	all := ValidateClaim(&claim.Spec, before, field.NewPath("spec"))
	if old != nil {
		all = append(all, validateClaimUpdate(claim, old)...)
	}
	return all
}

// ValidateClaim returns the errors of the spec of a claim or claim template. Errors that old has
// too are tolerated where Kubernetes does.
func ValidateClaim(spec, old *corev1.PersistentVolumeClaimSpec, at *field.Path) field.ErrorList {
	var all field.ErrorList
	if len(spec.AccessModes) == 0 {
		all = append(all, field.Required(at.Child("accessModes"), "at least 1 access mode is required"))
	}
	if spec.Selector != nil {
		excused := old != nil && len(metav1validation.ValidateLabelSelector(old.Selector, metav1validation.LabelSelectorValidationOptions{}, nil)) > 0
		all = append(all, metav1validation.ValidateLabelSelector(spec.Selector,
			metav1validation.LabelSelectorValidationOptions{AllowInvalidLabelValueInSelector: excused}, at.Child("selector"))...)
	}
	all = append(all, validateAccessModes(spec.AccessModes, at.Child("accessModes"))...)
	storage := at.Child("resources").Key(string(corev1.ResourceStorage))
	if size, ok := spec.Resources.Requests[corev1.ResourceStorage]; ok {
		all = append(all, rule.ValidatePositiveQuantity(size, storage)...)
	} else {
		all = append(all, field.Required(storage, ""))
	}
	if name := spec.StorageClassName; name != nil && *name != "" {
		all = append(all, validateClassName(*name, at.Child("storageClassName"))...)
	}
	all = append(all, validateVolumeMode(spec.VolumeMode, at.Child("volumeMode"))...)
	all = append(all, validateDataSources(spec, old, at)...)
	if name := spec.VolumeAttributesClassName; name != nil && *name != "" {
		all = append(all, validateClassName(*name, at.Child("volumeAttributesClassName"))...)
	}
	return all
}

// validateDataSources returns the errors of dataSource and dataSourceRef, which must agree.
func validateDataSources(spec, old *corev1.PersistentVolumeClaimSpec, at *field.Path) field.ErrorList {
	var all field.ErrorList
	excused := old != nil && (old.DataSource != nil && hasWrongGroup(old.DataSource.APIGroup) || old.DataSourceRef != nil && hasWrongGroup(old.DataSourceRef.APIGroup))
	source, ref := spec.DataSource, spec.DataSourceRef
	if source != nil {
		all = append(all, validateDataSource(source.APIGroup, source.Kind, source.Name, excused, at.Child("dataSource"))...)
	}
	if ref == nil {
		return all
	}
	all = append(all, validateDataSource(ref.APIGroup, ref.Kind, ref.Name, excused, at.Child("dataSourceRef"))...)
	if ref.Namespace != nil && *ref.Namespace != "" {
		all = append(all, rule.Invalid(at.Child("dataSourceRef", "namespace"), *ref.Namespace, apivalidation.ValidateNamespaceName(*ref.Namespace, false))...)
		if source != nil {
			all = append(all, field.Invalid(at, at.Child("dataSource"), "may not be specified when dataSourceRef.namespace is specified"))
		}
		return all
	}
	if source != nil && !(equality.Semantic.DeepEqual(source.APIGroup, ref.APIGroup) && source.Kind == ref.Kind && source.Name == ref.Name) {
		all = append(all, field.Invalid(at, at.Child("dataSource"), "must match dataSourceRef"))
	}
	return all
}

func validateDataSource(group *string, kind, name string, excused bool, at *field.Path) field.ErrorList {
	all := append(rule.RequireText(name, at.Child("name")), rule.RequireText(kind, at.Child("kind"))...)
	switch {
	case group == nil || *group == "":
		if kind != "PersistentVolumeClaim" {
			all = append(all, field.Invalid(at, kind, "must be 'PersistentVolumeClaim' when referencing the default apiGroup"))
		}
	case !excused:
		all = append(all, rule.Invalid(at.Child("apiGroup"), *group, validation.IsDNS1123Subdomain(*group))...)
	}
	return all
}

func hasWrongGroup(group *string) bool {
	return group != nil && *group != "" && len(validation.IsDNS1123Subdomain(*group)) > 0
}

// validateClaimUpdate lets a claim be bound, and grow after that.
func validateClaimUpdate(claim, old *corev1.PersistentVolumeClaim) field.ErrorList {
	var all field.ErrorList
	now, before := claim.Spec.DeepCopy(), old.Spec.DeepCopy()
	if before.VolumeName == "" {
		before.VolumeName = now.VolumeName
	}
	all = append(all, validateClassStays(claim, old)...)
	if mayNameClass(claim, old) {
		now.StorageClassName = before.StorageClassName
	}
	size := before.Resources.Requests[corev1.ResourceStorage]
	if claim.Status.Phase == corev1.ClaimBound {
		if now.Resources.Requests != nil {
			now.Resources.Requests[corev1.ResourceStorage] = size
		}
		now.VolumeAttributesClassName = before.VolumeAttributesClassName
	}
	if !equality.Semantic.DeepEqual(now, before) {
		all = append(all, field.Forbidden(field.NewPath("spec"), fmt.Sprintf("spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n%v",
			diff.Diff(rule.AsInternal(before), rule.AsInternal(now)))))
	}
	wanted, had := claim.Spec.Resources.Requests[corev1.ResourceStorage], old.Status.Capacity[corev1.ResourceStorage]
	if wanted.Cmp(size) < 0 && wanted.Cmp(had) <= 0 {
		all = append(all, field.Forbidden(field.NewPath("spec", "resources", "requests", "storage"), "field can not be less than status.capacity"))
	}
	all = append(all, apivalidation.ValidateImmutableField(claim.Spec.VolumeMode, old.Spec.VolumeMode, field.NewPath("volumeMode"))...)
	if attributes := field.NewPath("spec", "volumeAttributesClassName"); old.Status.CurrentVolumeAttributesClassName != nil && old.Spec.VolumeAttributesClassName != nil {
		switch name := claim.Spec.VolumeAttributesClassName; {
		case name == nil:
			all = append(all, field.Forbidden(attributes, "update to nil is forbidden when status.currentVolumeAttributesClassName is not nil"))
		case *name == "" && *old.Spec.VolumeAttributesClassName != "":
			all = append(all, field.Forbidden(attributes, "update to empty string is forbidden when status.currentVolumeAttributesClassName is not nil"))
		}
	}
	return all
}

// movesClass reports whether the class of a claim moves from the annotation to the field.
func movesClass(claim, old *corev1.PersistentVolumeClaim) bool {
	was, annotated := old.Annotations[corev1.BetaStorageClassAnnotation]
	is, still := claim.Annotations[corev1.BetaStorageClassAnnotation]
	name := claim.Spec.StorageClassName
	return annotated && old.Spec.StorageClassName == nil && name != nil && *name == was && (!still || is == was)
}

// mayNameClass reports whether a claim had no class, or the same one in the annotation.
func mayNameClass(claim, old *corev1.PersistentVolumeClaim) bool {
	was, annotated := old.Annotations[corev1.BetaStorageClassAnnotation]
	name := claim.Spec.StorageClassName
	return old.Spec.StorageClassName == nil && name != nil && (!annotated || *name == was)
}

func validateClassStays(claim, old *corev1.PersistentVolumeClaim) field.ErrorList {
	is := claim.Annotations[corev1.BetaStorageClassAnnotation]
	if movesClass(claim, old) || is == old.Annotations[corev1.BetaStorageClassAnnotation] {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("metadata", "annotations", corev1.BetaStorageClassAnnotation), is, apivalidation.FieldImmutableErrorMsg)}
}

// validatePersistentVolumeClaimStatus returns the errors of a claim's status.
func validatePersistentVolumeClaimStatus(claim, _ *corev1.PersistentVolumeClaim) field.ErrorList {
	var all field.ErrorList
	status, path := &claim.Status, field.NewPath("status")
	for _, name := range slices.Sorted(maps.Keys(status.Capacity)) {
		all = append(all, validateWhole(status.Capacity[name], path.Child("capacity").Key(string(name)))...)
	}
	at := path.Child("allocatedResourceStatuses")
	for _, name := range slices.Sorted(maps.Keys(status.AllocatedResourceStatuses)) {
		all = append(all, validateClaimedResource(name, at)...)
		supported := []corev1.ClaimResourceStatus{
			corev1.PersistentVolumeClaimControllerResizeInProgress, corev1.PersistentVolumeClaimControllerResizeInfeasible,
			corev1.PersistentVolumeClaimNodeResizeInProgress, corev1.PersistentVolumeClaimNodeResizeInfeasible,
			corev1.PersistentVolumeClaimNodeResizePending,
		}
		if !slices.Contains(supported, status.AllocatedResourceStatuses[name]) {
			all = append(all, field.NotSupported(at, name, supported)) // as in Kubernetes, the error shows the name instead of the value
		}
	}
	at = path.Child("allocatedResources")
	for _, name := range slices.Sorted(maps.Keys(status.AllocatedResources)) {
		problems := validateClaimedResource(name, at)
		if len(problems) == 0 {
			problems = validateWhole(status.AllocatedResources[name], at.Key(string(name)))
		}
		all = append(all, problems...)
	}
	return all
}

// validateClaimedResource accepts storage and qualified names of other domains.
func validateClaimedResource(name corev1.ResourceName, at *field.Path) field.ErrorList {
	all := rule.Invalid(at, string(name), validation.IsQualifiedName(string(name)))
	if len(all) == 0 && rule.IsNative(name) && name != corev1.ResourceStorage {
		all = append(all, field.NotSupported(at, string(name), []corev1.ResourceName{corev1.ResourceStorage}))
	}
	return all
}
