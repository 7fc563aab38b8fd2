package validation

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	required  = "requiredDuringSchedulingIgnoredDuringExecution"
	preferred = "preferredDuringSchedulingIgnoredDuringExecution"
)

// validatePodAffinity judges where a pod wants to be: on which nodes, and near or far
// from which other pods.
func validatePodAffinity(affinity *corev1.Affinity, path *field.Path) field.ErrorList {
	var all field.ErrorList
	if affinity == nil {
		return nil
	}
	if a := affinity.NodeAffinity; a != nil {
		at := path.Child("nodeAffinity")
		if a.RequiredDuringSchedulingIgnoredDuringExecution != nil {
			all = append(all, validateNodeSelector(a.RequiredDuringSchedulingIgnoredDuringExecution, true, at.Child(required))...)
		}
		for i, term := range a.PreferredDuringSchedulingIgnoredDuringExecution {
			at := at.Child(preferred).Index(i)
			all = append(all, validateWeight(term.Weight, at)...)
			all = append(all, validateNodeTerm(&term.Preference, false, at.Child("preference"))...)
		}
	}
	if a := affinity.PodAffinity; a != nil {
		all = append(all, validatePodTerms(a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution, path.Child("podAffinity"))...)
	}
	if a := affinity.PodAntiAffinity; a != nil {
		all = append(all, validatePodTerms(a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution, path.Child("podAntiAffinity"))...)
	}
	return all
}

func validateWeight(weight int32, path *field.Path) field.ErrorList {
	if weight <= 0 || weight > 100 {
		return field.ErrorList{field.Invalid(path.Child("weight"), weight, "must be in the range 1-100")}
	}
	return nil
}

const notAnOperator = "not a valid selector operator"

// validateNodeSelector judges from which nodes one is to be; see validateNodeTerm for strict.
func validateNodeSelector(selector *corev1.NodeSelector, strict bool, path *field.Path) field.ErrorList {
	var all field.ErrorList
	path = path.Child("nodeSelectorTerms")
	if len(selector.NodeSelectorTerms) == 0 {
		return field.ErrorList{field.Required(path, "must have at least one node selector term")}
	}
	for i := range selector.NodeSelectorTerms {
		all = append(all, validateNodeTerm(&selector.NodeSelectorTerms[i], strict, path.Index(i))...)
	}
	return all
}

// validateNodeTerm judges what nodes are selected by. Values that no label can have
// are excused unless strict: where they are only preferred, or have always been there.
func validateNodeTerm(term *corev1.NodeSelectorTerm, strict bool, path *field.Path) field.ErrorList {
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
		all = append(all, field.Invalid(path.Child("operator"), r.Operator, notAnOperator))
	}
	all = append(all, metav1validation.ValidateLabelName(r.Key, path.Child("key"))...)
	if strict {
		for i, value := range r.Values {
			all = append(all, invalid(values.Index(i), value, validation.IsValidLabelValue(value))...)
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
		all = append(all, field.Invalid(path.Child("operator"), r.Operator, notAnOperator))
	}
	if r.Key != metav1.ObjectNameField {
		return append(all, field.Invalid(path.Child("key"), r.Key, "not a valid field selector key"))
	}
	for i, value := range r.Values {
		all = append(all, invalid(path.Child("values").Index(i), value, apivalidation.NameIsDNSSubdomain(value, false))...)
	}
	return all
}

// validatePodTerms judges which pods are to be near, or far.
func validatePodTerms(must []corev1.PodAffinityTerm, should []corev1.WeightedPodAffinityTerm, path *field.Path) field.ErrorList {
	var all field.ErrorList
	for i := range must {
		all = append(all, validatePodTerm(&must[i], path.Child(required).Index(i))...)
	}
	for i := range should {
		at := path.Child(preferred).Index(i)
		all = append(all, validateWeight(should[i].Weight, at)...)
		all = append(all, validatePodTerm(&should[i].PodAffinityTerm, at.Child("podAffinityTerm"))...)
	}
	return all
}

func validatePodTerm(term *corev1.PodAffinityTerm, path *field.Path) field.ErrorList {
	options := metav1validation.LabelSelectorValidationOptions{}
	all := metav1validation.ValidateLabelSelector(term.LabelSelector, options, path.Child("labelSelector"))
	all = append(all, metav1validation.ValidateLabelSelector(term.NamespaceSelector, options, path.Child("namespaceSelector"))...)
	for _, name := range term.Namespaces {
		all = append(all, invalid(path.Child("namespace"), name, apivalidation.ValidateNamespaceName(name, false))...)
	}
	all = append(all, validateLabelKeys(term.MatchLabelKeys, term.MismatchLabelKeys, term.LabelSelector, path)...)
	if term.TopologyKey == "" {
		all = append(all, field.Required(path.Child("topologyKey"), "can not be empty"))
	}
	return append(all, metav1validation.ValidateLabelName(term.TopologyKey, path.Child("topologyKey"))...)
}

// validateLabelKeys judges the keys of labels whose values come from the pod. Those
// that are to match have become part of the selector already.
func validateLabelKeys(match, mismatch []string, selector *metav1.LabelSelector, path *field.Path) field.ErrorList {
	var all field.ErrorList
	for _, list := range []struct {
		name string
		keys []string
	}{{"matchLabelKeys", match}, {"mismatchLabelKeys", mismatch}} {
		switch at := path.Child(list.name); {
		case len(list.keys) == 0:
		case selector == nil:
			all = append(all, field.Forbidden(at, "must not be specified when labelSelector is not set"))
		default:
			for i, key := range list.keys {
				all = append(all, metav1validation.ValidateLabelName(key, at.Index(i))...)
			}
		}
	}
	if selector != nil {
		seen := map[string]bool{}
		for key := range selector.MatchLabels {
			seen[key] = true
		}
		for _, e := range selector.MatchExpressions {
			if i := lastIndex(match, e.Key); i >= 0 && seen[e.Key] {
				all = append(all, field.Invalid(path.Index(i), e.Key, "exists in both matchLabelKeys and labelSelector"))
			}
			seen[e.Key] = true
		}
	}
	for i, key := range match {
		if slices.Contains(mismatch, key) {
			all = append(all, field.Invalid(path.Child("matchLabelKeys").Index(i), key, "exists in both matchLabelKeys and mismatchLabelKeys"))
		}
	}
	return all
}

func lastIndex(list []string, s string) int {
	for i := len(list) - 1; i >= 0; i-- {
		if list[i] == s {
			return i
		}
	}
	return -1
}

// validateSpreading judges how evenly pods are to be spread.
func validateSpreading(constraints []corev1.TopologySpreadConstraint, path *field.Path) field.ErrorList {
	var all field.ErrorList
	for i := range constraints {
		c, at := &constraints[i], path.Index(i)
		all = append(all, validateAboveZero(int64(c.MaxSkew), at.Child("maxSkew"))...)
		if c.TopologyKey == "" {
			all = append(all, field.Required(at.Child("topologyKey"), "can not be empty"))
		}
		if actions := []corev1.UnsatisfiableConstraintAction{corev1.DoNotSchedule, corev1.ScheduleAnyway}; !slices.Contains(actions, c.WhenUnsatisfiable) {
			all = append(all, field.NotSupported(at.Child("whenUnsatisfiable"), c.WhenUnsatisfiable, actions))
		}
		if slices.ContainsFunc(constraints[i+1:], func(other corev1.TopologySpreadConstraint) bool {
			return other.TopologyKey == c.TopologyKey && other.WhenUnsatisfiable == c.WhenUnsatisfiable
		}) {
			all = append(all, field.Duplicate(at.Child("{topologyKey, whenUnsatisfiable}"), fmt.Sprintf("{%v, %v}", c.TopologyKey, c.WhenUnsatisfiable)))
		}
		if domains := c.MinDomains; domains != nil {
			all = append(all, validateAboveZero(int64(*domains), at.Child("minDomains"))...)
			if c.WhenUnsatisfiable != corev1.DoNotSchedule {
				all = append(all, field.Invalid(at.Child("minDomains"), domains,
					fmt.Sprintf("can only use minDomains if whenUnsatisfiable=%s, not %s", corev1.DoNotSchedule, c.WhenUnsatisfiable)))
			}
		}
		for _, p := range []struct {
			name   string
			policy *corev1.NodeInclusionPolicy
		}{{"nodeAffinityPolicy", c.NodeAffinityPolicy}, {"nodeTaintsPolicy", c.NodeTaintsPolicy}} {
			supported := []corev1.NodeInclusionPolicy{corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore}
			if p.policy != nil && !slices.Contains(supported, *p.policy) {
				all = append(all, field.NotSupported(at.Child(p.name), *p.policy, supported))
			}
		}
		all = append(all, validateLabelKeys(c.MatchLabelKeys, nil, c.LabelSelector, at)...)
		all = append(all, metav1validation.ValidateLabelSelector(c.LabelSelector, metav1validation.LabelSelectorValidationOptions{}, at.Child("labelSelector"))...)
	}
	return all
}

func validateAboveZero(n int64, path *field.Path) field.ErrorList {
	if n > 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(path, n, "must be greater than zero")}
}
