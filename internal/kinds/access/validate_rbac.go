package access

import (
	"github.com/kapok-dev/kapok/internal/kinds/rule"

	rbacv1 "k8s.io/api/rbac/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/api/validation/path"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Errors about required fields come last in this group: Kubernetes declares them as markers of the
// Go types, which it checks last.

func validateRole(role, _ *rbacv1.Role) field.ErrorList {
	all, last := validatePolicyRules(role.Rules, true)
	return append(all, last...)
}

func validateClusterRole(role, old *rbacv1.ClusterRole) field.ErrorList {
	all, last := validatePolicyRules(role.Rules, false)
	if rule := role.AggregationRule; rule != nil {
		at := field.NewPath("aggregationRule", "clusterRoleSelectors")
		if len(rule.ClusterRoleSelectors) == 0 {
			all = append(all, field.Required(at, "at least one clusterRoleSelector required if aggregationRule is non-nil"))
		}
		options := metav1validation.LabelSelectorValidationOptions{AllowInvalidLabelValueInSelector: old != nil && hasBadSelector(old)}
		for i := range rule.ClusterRoleSelectors {
			all = append(all, metav1validation.ValidateLabelSelector(&rule.ClusterRoleSelectors[i], options, at.Index(i))...)
			if selector, err := metav1.LabelSelectorAsSelector(&rule.ClusterRoleSelectors[i]); err != nil {
				all = append(all, field.Invalid(at.Index(i), selector, "invalid label selector."))
			}
		}
	}
	return append(all, last...)
}

// hasBadSelector reports whether a stored role has a selector with values that are not valid for
// labels.
func hasBadSelector(role *rbacv1.ClusterRole) bool {
	if role.AggregationRule == nil {
		return false
	}
	for i := range role.AggregationRule.ClusterRoleSelectors {
		selector := &role.AggregationRule.ClusterRoleSelectors[i]
		if len(metav1validation.ValidateLabelSelector(selector, metav1validation.LabelSelectorValidationOptions{}, nil)) > 0 {
			return true
		}
	}
	return false
}

func validatePolicyRules(rules []rbacv1.PolicyRule, namespaced bool) (all, last field.ErrorList) {
	for i, rule := range rules {
		at := field.NewPath("rules").Index(i)
		if len(rule.Verbs) == 0 {
			last = append(last, field.Required(at.Child("verbs"), ""))
		}
		if len(rule.NonResourceURLs) == 0 {
			if len(rule.APIGroups) == 0 {
				all = append(all, field.Required(at.Child("apiGroups"), "resource rules must supply at least one api group"))
			}
			if len(rule.Resources) == 0 {
				all = append(all, field.Required(at.Child("resources"), "resource rules must supply at least one resource"))
			}
			continue
		}
		if namespaced {
			all = append(all, field.Invalid(at.Child("nonResourceURLs"), rule.NonResourceURLs, "namespaced rules cannot apply to non-resource URLs"))
		}
		if len(rule.APIGroups)+len(rule.Resources)+len(rule.ResourceNames) > 0 {
			all = append(all, field.Invalid(at.Child("nonResourceURLs"), rule.NonResourceURLs, "rules cannot apply to both regular resources and non-resource URLs"))
		}
	}
	return all, last
}

func validateRoleBinding(b, old *rbacv1.RoleBinding) field.ErrorList {
	all, last := validateBinding(&b.RoleRef, b.Subjects, true, old != nil)
	if old != nil {
		all = append(all, rule.ValidateImmutable(b.RoleRef, old.RoleRef, field.NewPath("roleRef"))...)
	}
	return append(all, last...)
}

func validateClusterRoleBinding(b, old *rbacv1.ClusterRoleBinding) field.ErrorList {
	all, last := validateBinding(&b.RoleRef, b.Subjects, false, old != nil)
	if old != nil {
		all = append(all, rule.ValidateImmutable(b.RoleRef, old.RoleRef, field.NewPath("roleRef"))...)
	}
	return append(all, last...)
}

func validateBinding(role *rbacv1.RoleRef, subjects []rbacv1.Subject, namespaced, update bool) (all, last field.ErrorList) {
	at := field.NewPath("roleRef")
	all = append(all, rule.Supported(at.Child("apiGroup"), role.APIGroup, rbacv1.GroupName)...)
	kinds := []string{"ClusterRole"}
	if namespaced {
		kinds = []string{"Role", "ClusterRole"}
	}
	all = append(all, rule.Supported(at.Child("kind"), role.Kind, kinds...)...)
	if role.Name == "" && update { // the markers only report that it has changed
		all = append(all, field.Required(at.Child("name"), ""))
	} else if role.Name == "" {
		last = append(last, field.Required(at.Child("name"), ""))
	} else {
		all = append(all, rule.Invalid(at.Child("name"), role.Name, path.ValidatePathSegmentName(role.Name, false))...)
	}
	for i := range subjects {
		at := field.NewPath("subjects").Index(i)
		if subjects[i].Name == "" {
			last = append(last, field.Required(at.Child("name"), ""))
		}
		all = append(all, validateSubject(&subjects[i], namespaced, at)...)
	}
	return all, last
}

func validateSubject(s *rbacv1.Subject, namespaced bool, at *field.Path) (all field.ErrorList) {
	switch s.Kind {
	case rbacv1.ServiceAccountKind:
		if s.Name != "" {
			all = append(all, rule.Invalid(at.Child("name"), s.Name, apivalidation.ValidateServiceAccountName(s.Name, false))...)
		}
		all = append(all, rule.Supported(at.Child("apiGroup"), s.APIGroup, "")...)
		if !namespaced && s.Namespace == "" {
			all = append(all, field.Required(at.Child("namespace"), ""))
		}
		return all
	case rbacv1.UserKind, rbacv1.GroupKind:
		return rule.Supported(at.Child("apiGroup"), s.APIGroup, rbacv1.GroupName)
	}
	return rule.Supported(at.Child("kind"), s.Kind, rbacv1.ServiceAccountKind, rbacv1.UserKind, rbacv1.GroupKind)
}
