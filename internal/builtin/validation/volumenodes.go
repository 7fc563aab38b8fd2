package validation

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const notAnOperator = "not a valid selector operator"

// validateVolumeNodes judges from which nodes a volume can be reached. Label values that have always been wrong are excused.
func validateVolumeNodes(affinity *corev1.VolumeNodeAffinity, excused bool, at *field.Path) field.ErrorList {
	at = at.Child("required")
	if affinity.Required == nil {
		return field.ErrorList{field.Required(at, "must specify required node constraints")}
	}
	at = at.Child("nodeSelectorTerms")
	if len(affinity.Required.NodeSelectorTerms) == 0 {
		return field.ErrorList{field.Required(at, "must have at least one node selector term")}
	}
	var all field.ErrorList
	for i, term := range affinity.Required.NodeSelectorTerms {
		for j, r := range term.MatchExpressions {
			all = append(all, validateNodeLabels(r, excused, at.Index(i).Child("matchExpressions").Index(j))...)
		}
		for j, r := range term.MatchFields {
			all = append(all, validateNodeFields(r, at.Index(i).Child("matchFields").Index(j))...)
		}
	}
	return all
}

func validateNodeLabels(r corev1.NodeSelectorRequirement, excused bool, at *field.Path) field.ErrorList {
	var all field.ErrorList
	switch r.Operator {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
		if len(r.Values) == 0 {
			all = append(all, field.Required(at.Child("values"), "must be specified when `operator` is 'In' or 'NotIn'"))
		}
	case corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist:
		if len(r.Values) > 0 {
			all = append(all, field.Forbidden(at.Child("values"), "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"))
		}
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
		if len(r.Values) != 1 {
			all = append(all, field.Required(at.Child("values"), "must be specified single value when `operator` is 'Lt' or 'Gt'"))
		}
	default:
		all = append(all, field.Invalid(at.Child("operator"), r.Operator, notAnOperator))
	}
	all = append(all, metav1validation.ValidateLabelName(r.Key, at.Child("key"))...)
	if excused {
		return all
	}
	for i, value := range r.Values {
		all = append(all, invalid(at.Child("values").Index(i), value, validation.IsValidLabelValue(value))...)
	}
	return all
}

// validateNodeFields accepts the name of a node.
func validateNodeFields(r corev1.NodeSelectorRequirement, at *field.Path) field.ErrorList {
	var all field.ErrorList
	switch r.Operator {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
		if len(r.Values) != 1 {
			all = append(all, field.Required(at.Child("values"), "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"))
		}
	default:
		all = append(all, field.Invalid(at.Child("operator"), r.Operator, notAnOperator))
	}
	if r.Key != "metadata.name" {
		return append(all, field.Invalid(at.Child("key"), r.Key, "not a valid field selector key"))
	}
	for i, name := range r.Values {
		all = append(all, invalid(at.Child("values").Index(i), name, apivalidation.NameIsDNSSubdomain(name, false))...)
	}
	return all
}

func hasWrongLabelValue(selector *corev1.NodeSelector) bool {
	return selector != nil && slices.ContainsFunc(selector.NodeSelectorTerms, func(term corev1.NodeSelectorTerm) bool {
		return slices.ContainsFunc(term.MatchExpressions, func(r corev1.NodeSelectorRequirement) bool {
			return slices.ContainsFunc(r.Values, func(value string) bool { return len(validation.IsValidLabelValue(value)) > 0 })
		})
	})
}

// newLabel is what a label of nodes is called since it is no longer in beta.
func newLabel(key string) string {
	switch key {
	case corev1.LabelFailureDomainBetaZone:
		return corev1.LabelTopologyZone
	case corev1.LabelFailureDomainBetaRegion:
		return corev1.LabelTopologyRegion
	case corev1.LabelInstanceType:
		return corev1.LabelInstanceTypeStable
	case "beta.kubernetes.io/os":
		return corev1.LabelOSStable
	case "beta.kubernetes.io/arch":
		return corev1.LabelArchStable
	}
	return key
}

// withNewLabels is what nodes were required before, with labels called as they are now, as far as they are there.
func withNewLabels(before, now *corev1.VolumeNodeAffinity) *corev1.VolumeNodeAffinity {
	if before.Required == nil || now == nil || now.Required == nil {
		return before
	}
	renamed := before.DeepCopy()
	for i, term := range renamed.Required.NodeSelectorTerms {
		if i == len(now.Required.NodeSelectorTerms) {
			break
		}
		expressions := now.Required.NodeSelectorTerms[i].MatchExpressions
		for j := range min(len(term.MatchExpressions), len(expressions)) {
			if key := expressions[j].Key; newLabel(term.MatchExpressions[j].Key) == key {
				term.MatchExpressions[j].Key = key
			}
		}
	}
	return renamed
}
