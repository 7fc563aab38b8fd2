package defaults

import (
	"maps"
	"math"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// Job fills in what jobs leave open.
func Job(job *batchv1.Job) {
	spec := &job.Spec
	if spec.Completions == nil && spec.Parallelism == nil {
		set(&spec.Completions, 1)
	}
	set(&spec.Parallelism, 1)
	if spec.BackoffLimitPerIndex != nil {
		set(&spec.BackoffLimit, math.MaxInt32)
	}
	set(&spec.BackoffLimit, 6)
	set(&spec.CompletionMode, batchv1.NonIndexedCompletion)
	set(&spec.Suspend, false)
	if spec.PodFailurePolicy != nil {
		set(&spec.PodReplacementPolicy, batchv1.Failed)
		defaultFailurePolicy(spec.PodFailurePolicy)
	}
	set(&spec.PodReplacementPolicy, batchv1.TerminatingOrFailed)
	set(&spec.ManualSelector, false)
	// The labels of pods are complete when the job has a uid, see prepareJob.
	if job.UID != "" && len(job.Labels) == 0 {
		job.Labels = maps.Clone(spec.Template.Labels)
	}
	PodSpec(&spec.Template.Spec)
}

func defaultFailurePolicy(policy *batchv1.PodFailurePolicy) {
	for i := range policy.Rules {
		for j := range policy.Rules[i].OnPodConditions {
			fill(&policy.Rules[i].OnPodConditions[j].Status, corev1.ConditionTrue)
		}
	}
}
