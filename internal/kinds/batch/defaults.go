package batch

import (
	"maps"

	"github.com/kapok-dev/kapok/internal/kinds/defaults"

	batchv1 "k8s.io/api/batch/v1"
	batchv1beta1 "k8s.io/api/batch/v1beta1"
	corev1 "k8s.io/api/core/v1"
)

// Defaults registers the defaults of this group's types.
func Defaults(f *defaults.Functions) {
	defaults.On(f, func(job *batchv1.Job) {
		defaultJob(job)
		if len(job.Labels) == 0 {
			job.Labels = maps.Clone(job.Spec.Template.Labels)
		}
	})
	defaults.On(f, func(c *batchv1.CronJob) {
		defaults.Value(&c.Spec.ConcurrencyPolicy, batchv1.AllowConcurrent)
		defaultCronJob(&c.Spec.Suspend, &c.Spec.SuccessfulJobsHistoryLimit, &c.Spec.FailedJobsHistoryLimit)
	})
	defaults.On(f, func(c *batchv1beta1.CronJob) {
		defaults.Value(&c.Spec.ConcurrencyPolicy, batchv1beta1.AllowConcurrent)
		defaultCronJob(&c.Spec.Suspend, &c.Spec.SuccessfulJobsHistoryLimit, &c.Spec.FailedJobsHistoryLimit)
	})
	defaults.On(f, func(p *batchv1.PodFailurePolicyOnPodConditionsPattern) {
		defaults.Value(&p.Status, corev1.ConditionTrue)
	})
}

func defaultCronJob(suspend **bool, successful, failed **int32) {
	defaults.Pointer(suspend, false)
	defaults.Pointer(successful, 3)
	defaults.Pointer(failed, 1)
}
