package apps

import (
	"github.com/kapok-dev/kapok/internal/kinds/pods"
	"github.com/kapok-dev/kapok/internal/kinds/rule"

	appsv1 "k8s.io/api/apps/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

func validateDaemonSet(d, old *appsv1.DaemonSet) field.ErrorList {
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
	all = append(all, pods.ValidateTemplate(&spec.Template, template)...)
	all = append(all, pods.ValidateLongRunning(&spec.Template.Spec, "DaemonSet", template.Child("spec"))...)
	all = append(all, apivalidation.ValidateNonnegativeField(int64(spec.MinReadySeconds), path.Child("minReadySeconds"))...)
	all = append(all, validateDaemonStrategy(&spec.UpdateStrategy, path.Child("updateStrategy"))...)
	return append(all, ValidateCount(spec.RevisionHistoryLimit, path.Child("revisionHistoryLimit"))...)
}

func validateDaemonStrategy(strategy *appsv1.DaemonSetUpdateStrategy, path *field.Path) field.ErrorList {
	switch strategy.Type {
	case appsv1.OnDeleteDaemonSetStrategyType:
		return nil
	case appsv1.RollingUpdateDaemonSetStrategyType:
		return validateDaemonRollout(strategy.RollingUpdate, path.Child("rollingUpdate"))
	}
	return field.ErrorList{field.NotSupported(path, rule.AsInternal(strategy), []appsv1.DaemonSetUpdateStrategyType{
		appsv1.RollingUpdateDaemonSetStrategyType, appsv1.OnDeleteDaemonSetStrategyType,
	})}
}

// validateDaemonRollout requires exactly one of maxUnavailable and maxSurge to be set to more than
// 0.
func validateDaemonRollout(rolling *appsv1.RollingUpdateDaemonSet, path *field.Path) field.ErrorList {
	unavailable, surge := ptr.Deref(rolling.MaxUnavailable, intstr.IntOrString{}), ptr.Deref(rolling.MaxSurge, intstr.IntOrString{})
	all := rule.ValidateAmount(unavailable, path.Child("maxUnavailable"))
	all = append(all, rule.ValidateAmount(surge, path.Child("maxSurge"))...)
	all = append(all, rule.ValidateShare(unavailable, path.Child("maxUnavailable"))...)
	all = append(all, rule.ValidateShare(surge, path.Child("maxSurge"))...)
	switch goes, comes := rule.Amount(unavailable) != 0, rule.Amount(surge) != 0; {
	case goes && comes:
		all = append(all, field.Invalid(path.Child("maxSurge"), surge, "may not be set when maxUnavailable is non-zero"))
	case !goes && !comes:
		all = append(all, field.Required(path.Child("maxUnavailable"), "cannot be 0 when maxSurge is 0"))
	}
	return all
}

func validateDaemonSetStatus(d, old *appsv1.DaemonSet) field.ErrorList {
	status, path := &d.Status, field.NewPath("status")
	all := pods.ValidateCounts(path, []pods.Count{
		{Name: "currentNumberScheduled", Value: int64(status.CurrentNumberScheduled)}, {Name: "numberMisscheduled", Value: int64(status.NumberMisscheduled)},
		{Name: "desiredNumberScheduled", Value: int64(status.DesiredNumberScheduled)}, {Name: "numberReady", Value: int64(status.NumberReady)},
		{Name: "observedGeneration", Value: status.ObservedGeneration}, {Name: "updatedNumberScheduled", Value: int64(status.UpdatedNumberScheduled)},
		{Name: "numberAvailable", Value: int64(status.NumberAvailable)}, {Name: "numberUnavailable", Value: int64(status.NumberUnavailable)},
		{Name: "collisionCount", Value: int64(ptr.Deref(status.CollisionCount, 0))},
	})
	return append(all, pods.ValidateCollisions(status.CollisionCount, old.Status.CollisionCount, path.Child("collisionCount"))...)
}
