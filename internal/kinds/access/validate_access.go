package access

import (
	"fmt"

	"github.com/kapok-dev/kapok/internal/kinds/rule"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func validateSubjectAccessReview(review *authorizationv1.SubjectAccessReview) field.ErrorList {
	all := validateAccess(&review.Spec)
	return append(all, validateEmptyMetadata(review.ObjectMeta, review.ObjectMeta, "must be empty")...)
}

func validateSelfSubjectAccessReview(review *authorizationv1.SelfSubjectAccessReview) field.ErrorList {
	all := validateOneAttributes(review.Spec.ResourceAttributes, review.Spec.NonResourceAttributes)
	all = append(all, validateResourceAttributes(review.Spec.ResourceAttributes)...)
	return append(all, validateEmptyMetadata(review.ObjectMeta, review.ObjectMeta, "must be empty")...)
}

func validateLocalSubjectAccessReview(review *authorizationv1.LocalSubjectAccessReview) field.ErrorList {
	all := validateAccess(&review.Spec)
	rest := review.ObjectMeta
	rest.Namespace = ""
	all = append(all, validateEmptyMetadata(rest, review.ObjectMeta, "must be empty except for namespace")...)
	if a := review.Spec.ResourceAttributes; a != nil && a.Namespace != review.Namespace {
		all = append(all, field.Invalid(field.NewPath("spec.resourceAttributes.namespace"), a.Namespace, "must match metadata.namespace"))
	}
	if a := review.Spec.NonResourceAttributes; a != nil {
		all = append(all, field.Invalid(field.NewPath("spec.nonResourceAttributes"), rule.AsInternal(a), "disallowed on this kind of request"))
	}
	return all
}

func validateAccess(spec *authorizationv1.SubjectAccessReviewSpec) field.ErrorList {
	all := validateOneAttributes(spec.ResourceAttributes, spec.NonResourceAttributes)
	if spec.User == "" && len(spec.Groups) == 0 {
		all = append(all, field.Invalid(field.NewPath("spec", "user"), spec.User, "at least one of user or group must be specified"))
	}
	return append(all, validateResourceAttributes(spec.ResourceAttributes)...)
}

func validateOneAttributes(resource *authorizationv1.ResourceAttributes, path *authorizationv1.NonResourceAttributes) field.ErrorList {
	if (resource == nil) != (path == nil) {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("spec"), rule.AsInternal(path),
		"exactly one of nonResourceAttributes or resourceAttributes must be specified")}
}

func validateEmptyMetadata(meta, shown metav1.ObjectMeta, message string) field.ErrorList {
	meta.ManagedFields = nil
	if equality.Semantic.DeepEqual(metav1.ObjectMeta{}, meta) {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("metadata"), shown, message)}
}

// validateResourceAttributes returns the errors of selectors. Unknown operators are accepted, as
// newer clients may have more.
func validateResourceAttributes(a *authorizationv1.ResourceAttributes) (all field.ErrorList) {
	if a == nil {
		return nil
	}
	at := field.NewPath("spec.resourceAttributes")
	if s := a.FieldSelector; s != nil {
		at := at.Child("fieldSelector")
		all = append(all, validateSelector(s.RawSelector, len(s.Requirements), at)...)
		options := metav1validation.FieldSelectorValidationOptions{AllowUnknownOperatorInRequirement: true}
		for i, r := range s.Requirements {
			all = append(all, metav1validation.ValidateFieldSelectorRequirement(r, options, at.Child("requirements").Index(i))...)
		}
	}
	if s := a.LabelSelector; s != nil {
		at := at.Child("labelSelector")
		all = append(all, validateSelector(s.RawSelector, len(s.Requirements), at)...)
		options := metav1validation.LabelSelectorValidationOptions{AllowUnknownOperatorInRequirement: true}
		for i, r := range s.Requirements {
			all = append(all, metav1validation.ValidateLabelSelectorRequirement(r, options, at.Child("requirements").Index(i))...)
		}
	}
	return all
}

func validateSelector(raw string, requirements int, at *field.Path) field.ErrorList {
	switch {
	case raw != "" && requirements > 0:
		return field.ErrorList{field.Invalid(at.Child("rawSelector"), raw, "may not specified at the same time as requirements")}
	case raw == "" && requirements == 0:
		return field.ErrorList{field.Required(at.Child("requirements"), fmt.Sprintf("when %s is specified, requirements or rawSelector is required", at))}
	}
	return nil
}
