package validation

import (
	appsv1 "k8s.io/api/apps/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

func DaemonSet(d, old *appsv1.DaemonSet) field.ErrorList {
	spec, path := &d.Spec, field.NewPath("spec")
	var all field.ErrorList
	options := metav1validation.LabelSelectorValidationOptions{}
	if old != nil {
		all = append(all, apivalidation.ValidateImmutableField(spec.Selector, old.Spec.Selector, path.Child("selector"))...)
		options.AllowInvalidLabelValueInSelector = metav1validation.LabelSelectorHasInvalidLabelValue(old.Spec.Selector)
	}
	all = append(all, metav1validation.ValidateLabelSelector(spec.Selector, options, path.Child("selector"))...)
	template := path.Child("template")
	if selector, err := metav1.LabelSelectorAsSelector(spec.Selector); err == nil && !selector.Matches(labels.Set(spec.Template.Labels)) {
		all = append(all, field.Invalid(template.Child("metadata", "labels"), spec.Template.Labels, "`selector` does not match template `labels`"))
	}
	if s := spec.Selector; s != nil && len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
		all = append(all, field.Invalid(path.Child("selector"), s, "empty selector is invalid for daemonset"))
	}
	all = append(all, validatePodTemplate(&spec.Template, template)...)
	all = append(all, validateEndless(&spec.Template.Spec, "DaemonSet", template.Child("spec"))...)
	all = append(all, apivalidation.ValidateNonnegativeField(int64(spec.MinReadySeconds), path.Child("minReadySeconds"))...)
	all = append(all, validateDaemonStrategy(&spec.UpdateStrategy, path.Child("updateStrategy"))...)
	return append(all, validateCount(spec.RevisionHistoryLimit, path.Child("revisionHistoryLimit"))...)
}

func validateDaemonStrategy(strategy *appsv1.DaemonSetUpdateStrategy, path *field.Path) field.ErrorList {
	switch strategy.Type {
	case appsv1.OnDeleteDaemonSetStrategyType:
		return nil
	case appsv1.RollingUpdateDaemonSetStrategyType:
		return validateDaemonRollout(strategy.RollingUpdate, path.Child("rollingUpdate"))
	}
	return field.ErrorList{field.NotSupported(path, asInternal(strategy), []appsv1.DaemonSetUpdateStrategyType{
		appsv1.RollingUpdateDaemonSetStrategyType, appsv1.OnDeleteDaemonSetStrategyType,
	})}
}

// validateDaemonRollout: on a node the old pod goes first, or the new one comes first.
func validateDaemonRollout(rolling *appsv1.RollingUpdateDaemonSet, path *field.Path) field.ErrorList {
	unavailable, surge := ptr.Deref(rolling.MaxUnavailable, intstr.IntOrString{}), ptr.Deref(rolling.MaxSurge, intstr.IntOrString{})
	all := validateAmount(unavailable, path.Child("maxUnavailable"))
	all = append(all, validateAmount(surge, path.Child("maxSurge"))...)
	all = append(all, validateShare(unavailable, path.Child("maxUnavailable"))...)
	all = append(all, validateShare(surge, path.Child("maxSurge"))...)
	switch goes, comes := amount(unavailable) != 0, amount(surge) != 0; {
	case goes && comes:
		all = append(all, field.Invalid(path.Child("maxSurge"), surge, "may not be set when maxUnavailable is non-zero"))
	case !goes && !comes:
		all = append(all, field.Required(path.Child("maxUnavailable"), "cannot be 0 when maxSurge is 0"))
	}
	return all
}

// validateShare accepts no more than all.
func validateShare(n intstr.IntOrString, path *field.Path) field.ErrorList {
	if n.Type == intstr.String && amount(n) > 100 {
		return field.ErrorList{field.Invalid(path, n, "must not be greater than 100%")}
	}
	return nil
}

func DaemonSetStatus(d, old *appsv1.DaemonSet) field.ErrorList {
	status, path := &d.Status, field.NewPath("status")
	all := validateCounts(path, []count{
		{"currentNumberScheduled", int64(status.CurrentNumberScheduled)}, {"numberMisscheduled", int64(status.NumberMisscheduled)},
		{"desiredNumberScheduled", int64(status.DesiredNumberScheduled)}, {"numberReady", int64(status.NumberReady)},
		{"observedGeneration", status.ObservedGeneration}, {"updatedNumberScheduled", int64(status.UpdatedNumberScheduled)},
		{"numberAvailable", int64(status.NumberAvailable)}, {"numberUnavailable", int64(status.NumberUnavailable)},
		{"collisionCount", int64(ptr.Deref(status.CollisionCount, 0))},
	})
	return append(all, validateCollisions(status.CollisionCount, old.Status.CollisionCount, path.Child("collisionCount"))...)
}
