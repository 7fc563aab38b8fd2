package validation

import (
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

func Deployment(d, old *appsv1.Deployment) field.ErrorList {
	spec, path := &d.Spec, field.NewPath("spec")
	all := apivalidation.ValidateNonnegativeField(int64(*spec.Replicas), path.Child("replicas"))
	all = append(all, validateWorkloadSelector(spec.Selector, "deployment", path.Child("selector"))...)
	selector, err := metav1.LabelSelectorAsSelector(spec.Selector)
	if err != nil {
		all = append(all, field.Invalid(path.Child("selector"), spec.Selector, "invalid label selector"))
	} else {
		all = append(all, validateReplicaTemplate(&spec.Template, selector, path.Child("template"))...)
	}
	all = append(all, validateStrategy(&spec.Strategy, path.Child("strategy"))...)
	all = append(all, apivalidation.ValidateNonnegativeField(int64(spec.MinReadySeconds), path.Child("minReadySeconds"))...)
	all = append(all, apivalidation.ValidateNonnegativeField(int64(*spec.RevisionHistoryLimit), path.Child("revisionHistoryLimit"))...)
	deadline := path.Child("progressDeadlineSeconds")
	all = append(all, apivalidation.ValidateNonnegativeField(int64(*spec.ProgressDeadlineSeconds), deadline)...)
	if *spec.ProgressDeadlineSeconds <= spec.MinReadySeconds {
		all = append(all, field.Invalid(deadline, spec.ProgressDeadlineSeconds, "must be greater than minReadySeconds"))
	}
	if old != nil {
		all = append(all, apivalidation.ValidateImmutableField(spec.Selector, old.Spec.Selector, path.Child("selector"))...)
	}
	return all
}

// validateWorkloadSelector wants a selector that selects something.
func validateWorkloadSelector(selector *metav1.LabelSelector, of string, path *field.Path) field.ErrorList {
	if selector == nil {
		return field.ErrorList{field.Required(path, "")}
	}
	all := metav1validation.ValidateLabelSelector(selector, metav1validation.LabelSelectorValidationOptions{}, path)
	if len(selector.MatchLabels)+len(selector.MatchExpressions) == 0 {
		all = append(all, field.Invalid(path, selector, "empty selector is invalid for "+of))
	}
	return all
}

// validateReplicaTemplate judges a template of pods that run for ever.
func validateReplicaTemplate(template *corev1.PodTemplateSpec, selector labels.Selector, path *field.Path) field.ErrorList {
	var all field.ErrorList
	if !selector.Empty() && !selector.Matches(labels.Set(template.Labels)) {
		all = append(all, field.Invalid(path.Child("metadata", "labels"), template.Labels, "`selector` does not match template `labels`"))
	}
	all = append(all, validatePodTemplate(template, path)...)
	return append(all, validateEndless(&template.Spec, "ReplicaSet", path.Child("spec"))...)
}

func validateStrategy(strategy *appsv1.DeploymentStrategy, path *field.Path) field.ErrorList {
	switch strategy.Type {
	case appsv1.RecreateDeploymentStrategyType:
		if strategy.RollingUpdate != nil {
			return field.ErrorList{field.Forbidden(path.Child("rollingUpdate"), "may not be specified when strategy `type` is 'Recreate'")}
		}
		return nil
	case appsv1.RollingUpdateDeploymentStrategyType:
		unavailable, surge := strategy.RollingUpdate.MaxUnavailable, strategy.RollingUpdate.MaxSurge
		path = path.Child("rollingUpdate")
		all := validateAmount(*unavailable, path.Child("maxUnavailable"))
		all = append(all, validateAmount(*surge, path.Child("maxSurge"))...)
		if amount(*unavailable) == 0 && amount(*surge) == 0 {
			all = append(all, field.Invalid(path.Child("maxUnavailable"), unavailable, "may not be 0 when `maxSurge` is 0"))
		}
		return append(all, validateShare(*unavailable, path.Child("maxUnavailable"))...)
	}
	return field.ErrorList{field.NotSupported(path, asInternal(strategy), []appsv1.DeploymentStrategyType{
		appsv1.RecreateDeploymentStrategyType, appsv1.RollingUpdateDeploymentStrategyType,
	})}
}

// validateAmount accepts a number of pods, or a share in percent.
func validateAmount(n intstr.IntOrString, path *field.Path) field.ErrorList {
	if n.Type == intstr.String {
		return invalid(path, n, validation.IsValidPercent(n.StrVal))
	}
	return apivalidation.ValidateNonnegativeField(int64(n.IntVal), path)
}

// amount is the number, whether of pods or of percents; 0 if it is not valid.
func amount(n intstr.IntOrString) int {
	if n.Type == intstr.String {
		value, _ := strconv.Atoi(strings.TrimSuffix(n.StrVal, "%"))
		return value
	}
	return int(n.IntVal)
}

func DeploymentStatus(d, old *appsv1.Deployment) field.ErrorList {
	status, path := &d.Status, field.NewPath("status")
	all := validateCounts(path, []count{
		{"observedGeneration", status.ObservedGeneration}, {"replicas", int64(status.Replicas)},
		{"updatedReplicas", int64(status.UpdatedReplicas)}, {"readyReplicas", int64(status.ReadyReplicas)},
		{"availableReplicas", int64(status.AvailableReplicas)}, {"unavailableReplicas", int64(status.UnavailableReplicas)},
		{"terminatingReplicas", int64(ptr.Deref(status.TerminatingReplicas, 0))}, {"collisionCount", int64(ptr.Deref(status.CollisionCount, 0))},
	})
	all = append(all, validateParts(path, status.Replicas, []part{
		{"updatedReplicas", status.UpdatedReplicas}, {"readyReplicas", status.ReadyReplicas}, {"availableReplicas", status.AvailableReplicas},
	})...)
	if status.AvailableReplicas > status.ReadyReplicas {
		all = append(all, field.Invalid(path.Child("availableReplicas"), status.AvailableReplicas, "cannot be greater than readyReplicas"))
	}
	return append(all, validateCollisions(status.CollisionCount, old.Status.CollisionCount, path.Child("collisionCount"))...)
}

// validateCount judges a number that may be missing.
func validateCount[N int32 | int64](n *N, path *field.Path) field.ErrorList {
	if n == nil {
		return nil
	}
	return apivalidation.ValidateNonnegativeField(int64(*n), path)
}
