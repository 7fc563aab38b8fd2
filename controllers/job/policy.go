package job

import (
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// verdict returns the action of the first rule of a failure policy that a failed pod matches; "" if
// there is none. If the action fails the Job, message says why.
func verdict(policy *batchv1.PodFailurePolicy, p *corev1.Pod) (action batchv1.PodFailurePolicyAction, message string) {
	if policy == nil {
		return "", ""
	}
	for i, rule := range policy.Rules {
		switch {
		case rule.OnExitCodes != nil:
			if c := exited(p, rule.OnExitCodes); c != nil {
				return rule.Action, fmt.Sprintf("Container %s for pod %s/%s failed with exit code %v matching %v rule at index %d",
					c.Name, p.Namespace, p.Name, c.State.Terminated.ExitCode, rule.Action, i)
			}
		case rule.OnPodConditions != nil:
			if c := conditioned(p, rule.OnPodConditions); c != nil {
				return rule.Action, fmt.Sprintf("Pod %s/%s has condition %v matching %v rule at index %d", p.Namespace, p.Name, c.Type, rule.Action, i)
			}
		}
	}
	return "", ""
}

// exited returns the first container with an exit code that a rule is about, or nil.
func exited(p *corev1.Pod, rule *batchv1.PodFailurePolicyOnExitCodesRequirement) *corev1.ContainerStatus {
	for _, statuses := range [][]corev1.ContainerStatus{p.Status.ContainerStatuses, p.Status.InitContainerStatuses} {
		for i := range statuses {
			c := &statuses[i]
			if c.State.Terminated == nil || c.State.Terminated.ExitCode == 0 || rule.ContainerName != nil && *rule.ContainerName != c.Name {
				continue
			}
			listed := slices.Contains(rule.Values, c.State.Terminated.ExitCode)
			if rule.Operator == batchv1.PodFailurePolicyOnExitCodesOpIn && listed || rule.Operator == batchv1.PodFailurePolicyOnExitCodesOpNotIn && !listed {
				return c
			}
		}
	}
	return nil
}

// conditioned returns the first condition that matches a pattern, or nil.
func conditioned(p *corev1.Pod, patterns []batchv1.PodFailurePolicyOnPodConditionsPattern) *corev1.PodCondition {
	for i := range p.Status.Conditions {
		c := &p.Status.Conditions[i]
		if slices.ContainsFunc(patterns, func(want batchv1.PodFailurePolicyOnPodConditionsPattern) bool {
			return want.Type == c.Type && want.Status == c.Status
		}) {
			return c
		}
	}
	return nil
}

// successMessage returns which rule of a success policy the indexes that have succeeded meet, or
// "".
func successMessage(policy *batchv1.SuccessPolicy, done indexes, completions int) string {
	if policy == nil || len(done) == 0 {
		return ""
	}
	for i, rule := range policy.Rules {
		count, all := done.count(), completions+1
		if rule.SucceededIndexes != nil {
			wanted := parseIndexes(*rule.SucceededIndexes, completions)
			if count, all = done.common(wanted), wanted.count(); all == 0 {
				continue
			}
		}
		if count >= all || rule.SucceededCount != nil && count >= int(*rule.SucceededCount) {
			return fmt.Sprintf("Matched rules at index %d", i)
		}
	}
	return ""
}
