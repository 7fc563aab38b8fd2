package autoscaling

import (
	"errors"
	"fmt"

	"github.com/kapok-dev/kapok/internal/kinds/apps"
	"github.com/kapok-dev/kapok/internal/kinds/pods"
	"github.com/kapok-dev/kapok/internal/kinds/rule"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// Limits of an autoscaler's behavior, in seconds.
const (
	maxScalingPeriod       = 1800
	maxStabilizationWindow = 3600
)

func validateHorizontalPodAutoscaler(h, old *autoscalingv2.HorizontalPodAutoscaler) field.ErrorList {
	spec, path := &h.Spec, field.NewPath("spec")
	var all field.ErrorList
	if spec.MinReplicas != nil && spec.MaxReplicas < *spec.MinReplicas {
		all = append(all, field.Invalid(path.Child("maxReplicas"), spec.MaxReplicas, "must be greater than or equal to `minReplicas`"))
	}
	all = append(all, validateTarget(&spec.ScaleTargetRef, targetVersionRule(h, old), path.Child("scaleTargetRef"))...)
	all = append(all, validateMetrics(spec, objectVersionRule(old), path.Child("metrics"))...)
	if spec.Behavior != nil {
		all = append(all, validateScalingRules(spec.Behavior.ScaleUp, path.Child("behavior", "scaleUp"))...)
		all = append(all, validateScalingRules(spec.Behavior.ScaleDown, path.Child("behavior", "scaleDown"))...)
	}
	// Kubernetes' declarative rules come last.
	if n := spec.MinReplicas; n != nil && *n < 0 {
		all = append(all, apivalidation.ValidateNonnegativeField(int64(*n), path.Child("minReplicas"))...)
	}
	switch {
	case spec.MaxReplicas == 0:
		all = append(all, field.Required(path.Child("maxReplicas"), ""))
	case spec.MaxReplicas < 0:
		all = append(all, field.Invalid(path.Child("maxReplicas"), spec.MaxReplicas, "must be greater than or equal to 1"))
	}
	return all
}

// A versionRule validates the apiVersion of a referenced object.
type versionRule func(apiVersion string) error

func anyVersion(string) error { return nil }

func parsedVersion(apiVersion string) error {
	_, err := schema.ParseGroupVersion(apiVersion)
	return err
}

func groupedVersion(apiVersion string) error {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err == nil && gv.Group == "" {
		err = errors.New("apiVersion must specify API group")
	}
	return err
}

// targetVersionRule requires the apiVersion of a scale target to have a group, except for
// replication controllers. A reference that has not changed is not checked.
func targetVersionRule(h, old *autoscalingv2.HorizontalPodAutoscaler) versionRule {
	ref := &h.Spec.ScaleTargetRef
	switch {
	case old != nil && old.Spec.ScaleTargetRef.APIVersion == ref.APIVersion && old.Spec.ScaleTargetRef.Kind == ref.Kind:
		return anyVersion
	case ref.Kind == "ReplicationController":
		return parsedVersion
	}
	return groupedVersion
}

// objectVersionRule does not apply to objects that broke the rule before.
func objectVersionRule(old *autoscalingv2.HorizontalPodAutoscaler) versionRule {
	if old != nil {
		for _, m := range old.Spec.Metrics {
			if m.Type == autoscalingv2.ObjectMetricSourceType && m.Object != nil && parsedVersion(m.Object.DescribedObject.APIVersion) != nil {
				return anyVersion
			}
		}
	}
	return parsedVersion
}

func validateTarget(ref *autoscalingv2.CrossVersionObjectReference, rule versionRule, path *field.Path) field.ErrorList {
	all := validatePathPart(ref.Kind, "", path.Child("kind"))
	all = append(all, validatePathPart(ref.Name, "", path.Child("name"))...)
	if err := rule(ref.APIVersion); err != nil {
		all = append(all, field.Invalid(path.Child("apiVersion"), ref.APIVersion, err.Error()))
	}
	return all
}

// validatePathPart requires a name that can be a path segment; without is the error message for an
// empty one.
func validatePathPart(name, without string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, without)}
	}
	return rule.Invalid(path, name, content.IsPathSegmentName(name))
}

func validateScalingRules(rules *autoscalingv2.HPAScalingRules, path *field.Path) field.ErrorList {
	if rules == nil {
		return nil
	}
	var all field.ErrorList
	if n := rules.StabilizationWindowSeconds; n != nil && *n < 0 {
		all = append(all, field.Invalid(path.Child("stabilizationWindowSeconds"), n, "must be greater than or equal to zero"))
	} else if n != nil && *n > maxStabilizationWindow {
		all = append(all, field.Invalid(path.Child("stabilizationWindowSeconds"), n, fmt.Sprintf("must be less than or equal to %d", maxStabilizationWindow)))
	}
	switch policy := ptr.Deref(rules.SelectPolicy, autoscalingv2.MaxChangePolicySelect); policy {
	case autoscalingv2.MaxChangePolicySelect, autoscalingv2.MinChangePolicySelect, autoscalingv2.DisabledPolicySelect:
	default:
		all = append(all, field.NotSupported(path.Child("selectPolicy"), policy, []autoscalingv2.ScalingPolicySelect{
			autoscalingv2.DisabledPolicySelect, autoscalingv2.MaxChangePolicySelect, autoscalingv2.MinChangePolicySelect,
		}))
	}
	if len(rules.Policies) == 0 {
		all = append(all, field.Required(path.Child("policies"), "must specify at least one Policy"))
	}
	for i := range rules.Policies {
		all = append(all, validateScalingPolicy(&rules.Policies[i], path.Child("policies").Index(i))...)
	}
	if t := rules.Tolerance; t != nil && t.Sign() < 0 {
		all = append(all, field.Invalid(path.Child("tolerance"), t.String(), apivalidation.IsNegativeErrorMsg))
	}
	return all
}

func validateScalingPolicy(policy *autoscalingv2.HPAScalingPolicy, path *field.Path) field.ErrorList {
	var all field.ErrorList
	if policy.Type != autoscalingv2.PodsScalingPolicy && policy.Type != autoscalingv2.PercentScalingPolicy {
		all = append(all, field.NotSupported(path.Child("type"), policy.Type, []autoscalingv2.HPAScalingPolicyType{
			autoscalingv2.PercentScalingPolicy, autoscalingv2.PodsScalingPolicy,
		}))
	}
	if policy.Value <= 0 {
		all = append(all, field.Invalid(path.Child("value"), policy.Value, "must be greater than zero"))
	}
	if policy.PeriodSeconds <= 0 {
		all = append(all, field.Invalid(path.Child("periodSeconds"), policy.PeriodSeconds, "must be greater than zero"))
	} else if policy.PeriodSeconds > maxScalingPeriod {
		all = append(all, field.Invalid(path.Child("periodSeconds"), policy.PeriodSeconds, fmt.Sprintf("must be less than or equal to %d", maxScalingPeriod)))
	}
	return all
}

func validateHorizontalPodAutoscalerStatus(h, _ *autoscalingv2.HorizontalPodAutoscaler) field.ErrorList {
	status, path := &h.Status, field.NewPath("status")
	var all field.ErrorList
	for i, c := range status.Conditions {
		all = append(all, apps.ValidateCount(c.ObservedGeneration, path.Child("conditions").Index(i).Child("observedGeneration"))...)
	}
	return append(all, pods.ValidateCounts(path, []pods.Count{{Name: "currentReplicas", Value: int64(status.CurrentReplicas)}, {Name: "desiredReplicas", Value: int64(status.DesiredReplicas)}})...)
}
