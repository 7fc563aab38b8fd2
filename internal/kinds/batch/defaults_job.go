package batch

import (
	"maps"
	"math"

	"github.com/kapok-dev/kapok/internal/kinds/defaults"
	"github.com/kapok-dev/kapok/internal/kinds/pods"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// defaultJob applies the defaults of jobs.
func defaultJob(job *batchv1.Job) {
	spec := &job.Spec
	if spec.Completions == nil && spec.Parallelism == nil {
		defaults.Pointer(&spec.Completions, 1)
	}
	defaults.Pointer(&spec.Parallelism, 1)
	if spec.BackoffLimitPerIndex != nil {
		defaults.Pointer(&spec.BackoffLimit, math.MaxInt32)
	}
	defaults.Pointer(&spec.BackoffLimit, 6)
	defaults.Pointer(&spec.CompletionMode, batchv1.NonIndexedCompletion)
	defaults.Pointer(&spec.Suspend, false)
	if spec.PodFailurePolicy != nil {
		defaults.Pointer(&spec.PodReplacementPolicy, batchv1.Failed)
		defaultFailurePolicy(spec.PodFailurePolicy)
	}
	defaults.Pointer(&spec.PodReplacementPolicy, batchv1.TerminatingOrFailed)
	defaults.Pointer(&spec.ManualSelector, false)
	// The labels of pods are complete once the job has a uid, see prepareJob.
	if job.UID != "" && len(job.Labels) == 0 {
		job.Labels = maps.Clone(spec.Template.Labels)
	}
	pods.DefaultPodSpec(&spec.Template.Spec)
}

func defaultFailurePolicy(policy *batchv1.PodFailurePolicy) {
	for i := range policy.Rules {
		for j := range policy.Rules[i].OnPodConditions {
			defaults.Value(&policy.Rules[i].OnPodConditions[j].Status, corev1.ConditionTrue)
		}
	}
}
