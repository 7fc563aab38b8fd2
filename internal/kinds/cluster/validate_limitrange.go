package cluster

import (
	"fmt"
	"maps"
	"slices"

	"github.com/kapok-dev/kapok/internal/kinds/pods"
	"github.com/kapok-dev/kapok/internal/kinds/rule"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateLimitRange returns the errors of a limit range.
func validateLimitRange(limits, _ *corev1.LimitRange) field.ErrorList {
	var all field.ErrorList
	seen := map[corev1.LimitType]bool{}
	for i := range limits.Spec.Limits {
		item, at := &limits.Spec.Limits[i], field.NewPath("spec", "limits").Index(i)
		all = append(all, validateLimitType(item.Type, at.Child("type"))...)
		if seen[item.Type] {
			all = append(all, field.Duplicate(at.Child("type"), item.Type))
		}
		seen[item.Type] = true
		all = append(all, validateLimits(item, at)...)
	}
	return all
}

func validateLimitType(of corev1.LimitType, at *field.Path) field.ErrorList {
	if all := rule.Invalid(at, of, validation.IsQualifiedName(string(of))); len(all) > 0 {
		return all
	}
	switch of {
	case corev1.LimitTypePod, corev1.LimitTypeContainer, corev1.LimitTypePersistentVolumeClaim:
		return nil
	}
	if rule.Qualified(string(of)) {
		return nil
	}
	return field.ErrorList{field.Invalid(at, of, "must be a standard limit type or fully qualified")}
}

func validateLimits(item *corev1.LimitRangeItem, at *field.Path) field.ErrorList {
	defaults, requests := item.Default, item.DefaultRequest
	all := validateLimitNames(item, item.Max, at.Child("max"))
	all = append(all, validateLimitNames(item, item.Min, at.Child("min"))...)
	if item.Type == corev1.LimitTypePod {
		if len(defaults) > 0 {
			all = append(all, field.Forbidden(at.Child("default"), "may not be specified when `type` is 'Pod'"))
		}
		if len(requests) > 0 {
			all = append(all, field.Forbidden(at.Child("defaultRequest"), "may not be specified when `type` is 'Pod'"))
		}
		defaults, requests = nil, nil
	}
	all = append(all, validateLimitNames(item, defaults, at.Child("default"))...)
	all = append(all, validateLimitNames(item, requests, at.Child("defaultRequest"))...)
	if item.Type == corev1.LimitTypePersistentVolumeClaim {
		_, least := item.Min[corev1.ResourceStorage]
		_, most := item.Max[corev1.ResourceStorage]
		if !least && !most {
			all = append(all, field.Required(at.Child("limits"), "either minimum or maximum storage value is required, but neither was provided"))
		}
	}
	all = append(all, validateLimitNames(item, item.MaxLimitRequestRatio, at.Child("maxLimitRequestRatio"))...)

	names := map[corev1.ResourceName]bool{}
	for _, list := range []corev1.ResourceList{item.Max, item.Min, defaults, requests, item.MaxLimitRequestRatio} {
		for name := range list {
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		all = append(all, validateLimitsOf(name, item, defaults, requests, at)...)
	}
	return all
}

func validateLimitNames(item *corev1.LimitRangeItem, list corev1.ResourceList, at *field.Path) field.ErrorList {
	validate := pods.ValidateKnownResource
	if item.Type == corev1.LimitTypePod || item.Type == corev1.LimitTypeContainer {
		validate = pods.ValidateContainerResource
	}
	var all field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(list)) {
		all = append(all, validate(name, at.Key(string(name)))...)
	}
	return all
}

// validateLimitsOf requires min <= default request <= default <= max for a resource.
func validateLimitsOf(name corev1.ResourceName, item *corev1.LimitRangeItem, defaults, requests corev1.ResourceList, at *field.Path) field.ErrorList {
	var all field.ErrorList
	least, hasLeast := item.Min[name]
	most, hasMost := item.Max[name]
	limit, hasLimit := defaults[name]
	request, hasRequest := requests[name]
	ratio, hasRatio := item.MaxLimitRequestRatio[name]
	refuse := func(list string, value resource.Quantity, format string, args ...any) {
		all = append(all, field.Invalid(at.Child(list).Key(string(name)), value, fmt.Sprintf(format, args...)))
	}
	if hasLeast && hasMost && least.Cmp(most) > 0 {
		refuse("min", least, "min value %s is greater than max value %s", least.String(), most.String())
	}
	if hasRequest && hasLeast && least.Cmp(request) > 0 {
		refuse("defaultRequest", request, "min value %s is greater than default request value %s", least.String(), request.String())
	}
	if hasRequest && hasMost && request.Cmp(most) > 0 {
		refuse("defaultRequest", request, "default request value %s is greater than max value %s", request.String(), most.String())
	}
	if hasRequest && hasLimit && request.Cmp(limit) > 0 {
		refuse("defaultRequest", request, "default request value %s is greater than default limit value %s", request.String(), limit.String())
	}
	if hasLimit && hasLeast && least.Cmp(limit) > 0 {
		refuse("default", least, "min value %s is greater than default value %s", least.String(), limit.String())
	}
	if hasLimit && hasMost && limit.Cmp(most) > 0 {
		refuse("default", most, "default value %s is greater than max value %s", limit.String(), most.String())
	}
	if hasRatio && ratio.CmpInt64(1) < 0 {
		refuse("maxLimitRequestRatio", ratio, "ratio %s is less than 1", ratio.String())
	}
	if hasRatio && hasLeast && hasMost {
		if wanted, possible := ratioOf(ratio, least, most); wanted > possible {
			refuse("maxLimitRequestRatio", ratio, "ratio %s is greater than max/min = %f", ratio.String(), possible)
		}
	}
	if hasLimit && hasRequest && !pods.MayOvercommit(name) && limit.Cmp(request) != 0 {
		refuse("defaultRequest", request, "default value %s must equal to defaultRequest value %s in %s", limit.String(), request.String(), name)
	}
	return all
}

// ratioOf returns a ratio and its largest value, computed in thousandths unless these overflow.
func ratioOf(ratio, least, most resource.Quantity) (wanted, possible float64) {
	if max(ratio.Value(), least.Value(), most.Value()) < resource.MaxMilliValue {
		return float64(ratio.MilliValue()) / 1000, float64(most.MilliValue()) / float64(least.MilliValue())
	}
	return float64(ratio.Value()), float64(most.Value()) / float64(least.Value())
}
