package rule

import (
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// NotAnOperator is the rule that an operator of a selector breaks, in Kubernetes' words.
const NotAnOperator = "not a valid selector operator"

// ValidateNodeSelector returns the errors of a node selector; for strict see [ValidateNodeTerm].
func ValidateNodeSelector(selector *corev1.NodeSelector, strict bool, path *field.Path) field.ErrorList {
	var all field.ErrorList
	path = path.Child("nodeSelectorTerms")
	if len(selector.NodeSelectorTerms) == 0 {
		return field.ErrorList{field.Required(path, "must have at least one node selector term")}
	}
	for i := range selector.NodeSelectorTerms {
		all = append(all, ValidateNodeTerm(&selector.NodeSelectorTerms[i], strict, path.Index(i))...)
	}
	return all
}

// ValidateNodeTerm returns the errors of one term of a node selector. Unless strict, values that no
// label can have are tolerated: preferred terms may have them, and old objects do.
func ValidateNodeTerm(term *corev1.NodeSelectorTerm, strict bool, path *field.Path) field.ErrorList {
	var all field.ErrorList
	for i, r := range term.MatchExpressions {
		all = append(all, validateNodeExpression(r, strict, path.Child("matchExpressions").Index(i))...)
	}
	for i, r := range term.MatchFields {
		all = append(all, validateNodeField(r, path.Child("matchFields").Index(i))...)
	}
	return all
}

func validateNodeExpression(r corev1.NodeSelectorRequirement, strict bool, path *field.Path) field.ErrorList {
	var all field.ErrorList
	values := path.Child("values")
	switch r.Operator {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
		if len(r.Values) == 0 {
			all = append(all, field.Required(values, "must be specified when `operator` is 'In' or 'NotIn'"))
		}
	case corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist:
		if len(r.Values) > 0 {
			all = append(all, field.Forbidden(values, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"))
		}
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
		if len(r.Values) != 1 {
			all = append(all, field.Required(values, "must be specified single value when `operator` is 'Lt' or 'Gt'"))
		}
	default:
		all = append(all, field.Invalid(path.Child("operator"), r.Operator, NotAnOperator))
	}
	all = append(all, metav1validation.ValidateLabelName(r.Key, path.Child("key"))...)
	if strict {
		for i, value := range r.Values {
			all = append(all, Invalid(values.Index(i), value, validation.IsValidLabelValue(value))...)
		}
	}
	return all
}

func validateNodeField(r corev1.NodeSelectorRequirement, path *field.Path) field.ErrorList {
	var all field.ErrorList
	switch r.Operator {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
		if len(r.Values) != 1 {
			all = append(all, field.Required(path.Child("values"), "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"))
		}
	default:
		all = append(all, field.Invalid(path.Child("operator"), r.Operator, NotAnOperator))
	}
	if r.Key != metav1.ObjectNameField {
		return append(all, field.Invalid(path.Child("key"), r.Key, "not a valid field selector key"))
	}
	for i, value := range r.Values {
		all = append(all, Invalid(path.Child("values").Index(i), value, apivalidation.NameIsDNSSubdomain(value, false))...)
	}
	return all
}
