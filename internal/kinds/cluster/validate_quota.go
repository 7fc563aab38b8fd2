package cluster

import (
	"maps"
	"slices"

	"github.com/kapok-dev/kapok/internal/kinds/pods"
	"github.com/kapok-dev/kapok/internal/kinds/rule"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateResourceQuota returns the errors of a quota.
func validateResourceQuota(quota, old *corev1.ResourceQuota) field.ErrorList {
	spec, path := &quota.Spec, field.NewPath("spec")
	all := validateQuotaAmounts(spec.Hard, path.Child("hard"))
	all = append(all, validateQuotaScopes(spec, path.Child("scopes"))...)
	if spec.ScopeSelector != nil {
		all = append(all, validateScopeSelector(spec, path.Child("scopeSelector", "matchExpressions"))...)
	}
	if old != nil && !sameScopes(spec.Scopes, old.Spec.Scopes) {
		all = append(all, field.Invalid(path.Child("scopes"), spec.Scopes, apivalidation.FieldImmutableErrorMsg))
	}
	return all
}

// validateResourceQuotaStatus returns the errors of a quota's usage.
func validateResourceQuotaStatus(quota, _ *corev1.ResourceQuota) field.ErrorList {
	all := validateQuotaAmounts(quota.Status.Hard, field.NewPath("status", "hard"))
	return append(all, validateQuotaAmounts(quota.Status.Used, field.NewPath("status", "used"))...)
}

func validateQuotaAmounts(list corev1.ResourceList, path *field.Path) field.ErrorList {
	var all field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(list)) {
		all = append(all, pods.ValidateQuotaResource(name, path.Key(string(name)))...)
		all = append(all, pods.ValidateQuantity(name, list[name], path.Key(string(name)))...)
	}
	return all
}

func validateQuotaScopes(spec *corev1.ResourceQuotaSpec, at *field.Path) field.ErrorList {
	var all field.ErrorList
	for _, scope := range spec.Scopes {
		if !isScope(scope) {
			all = append(all, field.Invalid(at, spec.Scopes, "unsupported scope"))
		}
		for _, name := range slices.Sorted(maps.Keys(spec.Hard)) {
			if pods.IsQuotaResource(name) && !covers(scope, name) {
				all = append(all, field.Invalid(at, spec.Scopes, "unsupported scope applied to resource"))
			}
		}
	}
	return append(all, validateScopePairs(spec.Scopes, spec, at)...)
}

func validateScopeSelector(spec *corev1.ResourceQuotaSpec, at *field.Path) field.ErrorList {
	var all field.ErrorList
	var scopes []corev1.ResourceQuotaScope
	for _, r := range spec.ScopeSelector.MatchExpressions {
		scopes = append(scopes, r.ScopeName)
		if !isScope(r.ScopeName) {
			all = append(all, field.Invalid(at.Child("scopeName"), r.ScopeName, "unsupported scope"))
		}
		for _, name := range slices.Sorted(maps.Keys(spec.Hard)) {
			if pods.IsQuotaResource(name) && !covers(r.ScopeName, name) {
				all = append(all, field.Invalid(at, rule.AsInternal(spec.ScopeSelector), "unsupported scope applied to resource"))
			}
		}
		all = append(all, validateScopeOperator(r, at)...)
	}
	return append(all, validateScopePairs(scopes, spec, at)...)
}

func validateScopeOperator(r corev1.ScopedResourceSelectorRequirement, at *field.Path) field.ErrorList {
	var all field.ErrorList
	switch r.ScopeName {
	case corev1.ResourceQuotaScopeBestEffort, corev1.ResourceQuotaScopeNotBestEffort, corev1.ResourceQuotaScopeTerminating,
		corev1.ResourceQuotaScopeNotTerminating, corev1.ResourceQuotaScopeCrossNamespacePodAffinity:
		if r.Operator != corev1.ScopeSelectorOpExists {
			all = append(all, field.Invalid(at.Child("operator"), r.Operator, "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, "+
				"ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"))
		}
	}
	switch r.Operator {
	case corev1.ScopeSelectorOpIn, corev1.ScopeSelectorOpNotIn:
		if len(r.Values) == 0 {
			all = append(all, field.Required(at.Child("values"), "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"))
		}
	case corev1.ScopeSelectorOpExists, corev1.ScopeSelectorOpDoesNotExist:
		if len(r.Values) > 0 {
			all = append(all, field.Invalid(at.Child("values"), r.Values, "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"))
		}
	default:
		all = append(all, field.Invalid(at.Child("operator"), r.Operator, rule.NotAnOperator))
	}
	return all
}

// validateScopePairs rejects scopes that exclude each other.
func validateScopePairs(scopes []corev1.ResourceQuotaScope, spec *corev1.ResourceQuotaSpec, at *field.Path) field.ErrorList {
	var all field.ErrorList
	for _, pair := range [][2]corev1.ResourceQuotaScope{
		{corev1.ResourceQuotaScopeBestEffort, corev1.ResourceQuotaScopeNotBestEffort},
		{corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating},
	} {
		if slices.Contains(scopes, pair[0]) && slices.Contains(scopes, pair[1]) {
			all = append(all, field.Invalid(at, spec.Scopes, "conflicting scopes"))
		}
	}
	return all
}

func sameScopes(a, b []corev1.ResourceQuotaScope) bool {
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	return slices.Equal(slices.Compact(a), slices.Compact(b))
}

func isScope(scope corev1.ResourceQuotaScope) bool {
	switch scope {
	case corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating, corev1.ResourceQuotaScopeBestEffort,
		corev1.ResourceQuotaScopeNotBestEffort, corev1.ResourceQuotaScopePriorityClass, corev1.ResourceQuotaScopeVolumeAttributesClass,
		corev1.ResourceQuotaScopeCrossNamespacePodAffinity:
		return true
	}
	return false
}

// covers reports whether objects in a scope can use a resource.
func covers(scope corev1.ResourceQuotaScope, name corev1.ResourceName) bool {
	switch scope {
	case corev1.ResourceQuotaScopeBestEffort:
		return name == corev1.ResourcePods
	case corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating, corev1.ResourceQuotaScopeNotBestEffort,
		corev1.ResourceQuotaScopePriorityClass, corev1.ResourceQuotaScopeCrossNamespacePodAffinity:
		switch name {
		case corev1.ResourcePods, corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory,
			corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory:
			return true
		}
		return false
	case corev1.ResourceQuotaScopeVolumeAttributesClass:
		return name == corev1.ResourcePersistentVolumeClaims || name == corev1.ResourceRequestsStorage
	}
	return true
}
