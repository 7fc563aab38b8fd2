package pods

import (
	"fmt"
	"slices"

	"github.com/kapok-dev/kapok/internal/kinds/rule"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	required  = "requiredDuringSchedulingIgnoredDuringExecution"
	preferred = "preferredDuringSchedulingIgnoredDuringExecution"
)

// validatePodAffinity returns the errors of an affinity: to nodes, and to or from other pods.
func validatePodAffinity(affinity *corev1.Affinity, path *field.Path) field.ErrorList {
	var all field.ErrorList
	if affinity == nil {
		return nil
	}
	if a := affinity.NodeAffinity; a != nil {
		at := path.Child("nodeAffinity")
		if a.RequiredDuringSchedulingIgnoredDuringExecution != nil {
			all = append(all, rule.ValidateNodeSelector(a.RequiredDuringSchedulingIgnoredDuringExecution, true, at.Child(required))...)
		}
		for i, term := range a.PreferredDuringSchedulingIgnoredDuringExecution {
			at := at.Child(preferred).Index(i)
			all = append(all, validateWeight(term.Weight, at)...)
			all = append(all, rule.ValidateNodeTerm(&term.Preference, false, at.Child("preference"))...)
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

// validatePodTerms returns the errors of required and preferred affinity terms.
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
		all = append(all, rule.Invalid(path.Child("namespace"), name, apivalidation.ValidateNamespaceName(name, false))...)
	}
	all = append(all, validateLabelKeys(term.MatchLabelKeys, term.MismatchLabelKeys, term.LabelSelector, path)...)
	if term.TopologyKey == "" {
		all = append(all, field.Required(path.Child("topologyKey"), "can not be empty"))
	}
	return append(all, metav1validation.ValidateLabelName(term.TopologyKey, path.Child("topologyKey"))...)
}

// validateLabelKeys returns the errors of label keys whose values are taken from the pod. Keys that
// must match have been merged into the selector before.
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

// validateSpreading returns the errors of topology spread constraints.
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
