package job

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// condition returns a condition that is true from now on.
func (p *pass) condition(of batchv1.JobConditionType, reason, message string) *batchv1.JobCondition {
	now := metav1.NewTime(p.now)
	return &batchv1.JobCondition{Type: of, Status: corev1.ConditionTrue, Reason: reason, Message: message, LastProbeTime: now, LastTransitionTime: now}
}

// isTrue returns the condition of a type if it is true, or nil.
func isTrue(job *batchv1.Job, of batchv1.JobConditionType) *batchv1.JobCondition {
	for i := range job.Status.Conditions {
		if c := &job.Status.Conditions[i]; c.Type == of && c.Status == corev1.ConditionTrue {
			return c
		}
	}
	return nil
}

// finished reports whether a Job has succeeded or failed for good.
func finished(job *batchv1.Job) bool {
	return isTrue(job, batchv1.JobComplete) != nil || isTrue(job, batchv1.JobFailed) != nil
}

// setCondition sets a condition, and reports whether it has changed. One that is false is not
// added.
func setCondition(status *batchv1.JobStatus, c batchv1.JobCondition) bool {
	for i := range status.Conditions {
		was := &status.Conditions[i]
		if was.Type != c.Type {
			continue
		}
		if was.Status == c.Status && was.Reason == c.Reason && was.Message == c.Message {
			return false
		}
		*was = c
		return true
	}
	if c.Status == corev1.ConditionFalse {
		return false
	}
	status.Conditions = append(status.Conditions, c)
	return true
}
