package defaults

import (
	"maps"

	batchv1 "k8s.io/api/batch/v1"
	batchv1beta1 "k8s.io/api/batch/v1beta1"
	corev1 "k8s.io/api/core/v1"
)

func batchTypes(f *functions) {
	on(f, func(job *batchv1.Job) {
		Job(job)
		if len(job.Labels) == 0 {
			job.Labels = maps.Clone(job.Spec.Template.Labels)
		}
	})
	on(f, func(c *batchv1.CronJob) {
		fill(&c.Spec.ConcurrencyPolicy, batchv1.AllowConcurrent)
		defaultCronJob(&c.Spec.Suspend, &c.Spec.SuccessfulJobsHistoryLimit, &c.Spec.FailedJobsHistoryLimit)
	})
	on(f, func(c *batchv1beta1.CronJob) {
		fill(&c.Spec.ConcurrencyPolicy, batchv1beta1.AllowConcurrent)
		defaultCronJob(&c.Spec.Suspend, &c.Spec.SuccessfulJobsHistoryLimit, &c.Spec.FailedJobsHistoryLimit)
	})
	on(f, func(p *batchv1.PodFailurePolicyOnPodConditionsPattern) { fill(&p.Status, corev1.ConditionTrue) })
}

func defaultCronJob(suspend **bool, successful, failed **int32) {
	set(suspend, false)
	set(successful, 3)
	set(failed, 1)
}
