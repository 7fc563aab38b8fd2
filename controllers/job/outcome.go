package job

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// judge returns the outcome of the Job, or nil if it continues. The decision of a former pass comes
// first. Then failures come before successes.
func (p *pass) judge() *batchv1.JobCondition {
	spec := &p.job.Spec
	if c := isTrue(p.job, batchv1.JobSuccessCriteriaMet); c != nil {
		return c.DeepCopy()
	}
	if c := isTrue(p.job, batchv1.JobFailureTarget); c != nil {
		return p.condition(batchv1.JobFailed, c.Reason, c.Message)
	}
	failure := func(reason, message string) *batchv1.JobCondition {
		return p.condition(batchv1.JobFailureTarget, reason, message)
	}
	if message := p.failedByPolicy(); message != "" {
		return failure(batchv1.JobReasonPodFailurePolicy, message)
	}
	if p.failed > *spec.BackoffLimit || p.restartedTooOften() {
		return failure(batchv1.JobReasonBackoffLimitExceeded, "Job has reached the specified backoff limit")
	}
	if p.pastDeadline() {
		return failure(batchv1.JobReasonDeadlineExceeded, "Job was active longer than specified deadline")
	}
	if !indexed(p.job) {
		return nil
	}
	switch n := p.failedIndexes.count(); {
	case spec.MaxFailedIndexes != nil && n > int(*spec.MaxFailedIndexes):
		return failure(batchv1.JobReasonMaxFailedIndexesExceeded, "Job has exceeded the specified maximal number of failed indexes")
	case n > 0 && n+p.done.count() >= int(*spec.Completions):
		return failure(batchv1.JobReasonFailedIndexes, "Job has failed indexes")
	}
	if message := successMessage(spec.SuccessPolicy, p.done, int(*spec.Completions)); message != "" {
		return p.condition(batchv1.JobSuccessCriteriaMet, batchv1.JobReasonSuccessPolicy, message)
	}
	return nil
}

// failedByPolicy returns why spec.podFailurePolicy fails the Job, or "".
func (p *pass) failedByPolicy() string {
	if p.job.Spec.PodFailurePolicy == nil {
		return ""
	}
	for _, one := range p.pods {
		if !p.isFailed(one) {
			continue
		}
		if action, message := verdict(p.job.Spec.PodFailurePolicy, one); action == batchv1.PodFailurePolicyActionFailJob {
			return message
		}
	}
	return ""
}

// failsIndex reports whether a pod has failed, and its index with it.
func (p *pass) failsIndex(one *corev1.Pod) bool {
	if p.job.Spec.BackoffLimitPerIndex == nil || !p.isFailed(one) {
		return false
	}
	switch action, _ := verdict(p.job.Spec.PodFailurePolicy, one); action {
	case batchv1.PodFailurePolicyActionFailIndex:
		return true
	case batchv1.PodFailurePolicyActionIgnore:
		return false
	}
	return number(one, batchv1.JobIndexFailureCountAnnotation) >= *p.job.Spec.BackoffLimitPerIndex
}

// restartedTooOften reports whether the containers of pods that restart them have failed more often
// than spec.backoffLimit allows.
func (p *pass) restartedTooOften() bool {
	if p.job.Spec.Template.Spec.RestartPolicy != corev1.RestartPolicyOnFailure {
		return false
	}
	n := int32(0)
	for _, one := range p.pods {
		if one.Status.Phase != corev1.PodRunning && one.Status.Phase != corev1.PodPending {
			continue
		}
		for _, c := range one.Status.InitContainerStatuses {
			n += c.RestartCount
		}
		for _, c := range one.Status.ContainerStatuses {
			n += c.RestartCount
		}
	}
	return n >= max(1, *p.job.Spec.BackoffLimit)
}

// pastDeadline reports whether spec.activeDeadlineSeconds is over. If not, it asks for a pass when
// it is.
func (p *pass) pastDeadline() bool {
	seconds, start := p.job.Spec.ActiveDeadlineSeconds, p.job.Status.StartTime
	if seconds == nil || start == nil || suspended(p.job) {
		return false
	}
	left := start.Add(time.Duration(*seconds) * time.Second).Sub(p.now)
	if left > 0 {
		p.later(left)
	}
	return left <= 0
}
