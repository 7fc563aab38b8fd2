// Package job reports for other controllers than that of Jobs whether and how a Job has finished.
//
// It starts no goroutine, has no locks, and does not change Jobs.
package job

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// Finished returns the condition with which a Job has finished, Complete or Failed; nil if it has
// not.
func Finished(j *batchv1.Job) *batchv1.JobCondition {
	for i := range j.Status.Conditions {
		c := &j.Status.Conditions[i]
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
			return c
		}
	}
	return nil
}

// Succeeded reports whether a Job has finished with success.
func Succeeded(j *batchv1.Job) bool {
	c := Finished(j)
	return c != nil && c.Type == batchv1.JobComplete
}
