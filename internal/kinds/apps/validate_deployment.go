package apps

import (
	"github.com/kapok-dev/kapok/internal/kinds/pods"
	"github.com/kapok-dev/kapok/internal/kinds/rule"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

func validateDeployment(d, old *appsv1.Deployment) field.ErrorList {
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

// validateWorkloadSelector rejects empty and invalid selectors.
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

// validateReplicaTemplate returns the errors of a pod template whose pods do not end.
func validateReplicaTemplate(template *corev1.PodTemplateSpec, selector labels.Selector, path *field.Path) field.ErrorList {
	var all field.ErrorList
	if !selector.Empty() && !selector.Matches(labels.Set(template.Labels)) {
		all = append(all, field.Invalid(path.Child("metadata", "labels"), template.Labels, "`selector` does not match template `labels`"))
	}
	all = append(all, pods.ValidateTemplate(template, path)...)
	return append(all, pods.ValidateLongRunning(&template.Spec, "ReplicaSet", path.Child("spec"))...)
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
		all := rule.ValidateAmount(*unavailable, path.Child("maxUnavailable"))
		all = append(all, rule.ValidateAmount(*surge, path.Child("maxSurge"))...)
		if rule.Amount(*unavailable) == 0 && rule.Amount(*surge) == 0 {
			all = append(all, field.Invalid(path.Child("maxUnavailable"), unavailable, "may not be 0 when `maxSurge` is 0"))
		}
		return append(all, rule.ValidateShare(*unavailable, path.Child("maxUnavailable"))...)
	}
	return field.ErrorList{field.NotSupported(path, rule.AsInternal(strategy), []appsv1.DeploymentStrategyType{
		appsv1.RecreateDeploymentStrategyType, appsv1.RollingUpdateDeploymentStrategyType,
	})}
}

func validateDeploymentStatus(d, old *appsv1.Deployment) field.ErrorList {
	status, path := &d.Status, field.NewPath("status")
	all := pods.ValidateCounts(path, []pods.Count{
		{Name: "observedGeneration", Value: status.ObservedGeneration}, {Name: "replicas", Value: int64(status.Replicas)},
		{Name: "updatedReplicas", Value: int64(status.UpdatedReplicas)}, {Name: "readyReplicas", Value: int64(status.ReadyReplicas)},
		{Name: "availableReplicas", Value: int64(status.AvailableReplicas)}, {Name: "unavailableReplicas", Value: int64(status.UnavailableReplicas)},
		{Name: "terminatingReplicas", Value: int64(ptr.Deref(status.TerminatingReplicas, 0))}, {Name: "collisionCount", Value: int64(ptr.Deref(status.CollisionCount, 0))},
	})
	all = append(all, pods.ValidateParts(path, status.Replicas, []pods.Part{
		{Name: "updatedReplicas", Value: status.UpdatedReplicas}, {Name: "readyReplicas", Value: status.ReadyReplicas}, {Name: "availableReplicas", Value: status.AvailableReplicas},
	})...)
	if status.AvailableReplicas > status.ReadyReplicas {
		all = append(all, field.Invalid(path.Child("availableReplicas"), status.AvailableReplicas, "cannot be greater than readyReplicas"))
	}
	return append(all, pods.ValidateCollisions(status.CollisionCount, old.Status.CollisionCount, path.Child("collisionCount"))...)
}

// ValidateCount rejects a negative number; it may be nil.
func ValidateCount[N int32 | int64](n *N, path *field.Path) field.ErrorList {
	if n == nil {
		return nil
	}
	return apivalidation.ValidateNonnegativeField(int64(*n), path)
}
