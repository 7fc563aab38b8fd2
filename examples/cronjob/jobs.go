package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	batchv1 "github.com/kapok-dev/kapok/examples/cronjob/api/v1"

	kbatch "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// scheduledTimeAnnotation is the annotation of a job with its scheduled time (RFC 3339). It tells
// the controller which times it has handled.
const scheduledTimeAnnotation = "batch.tutorial.kubebuilder.io/scheduled-at"

// jobs are the jobs of a CronJob, by state.
type jobs struct {
	active, successful, failed []*kbatch.Job
	newest                     *kbatch.Job // that with the latest scheduled time. nil: none has one
	lastSchedule               time.Time   // its scheduled time
}

// sortJobs groups jobs by state, each group sorted by name. It calls bad for jobs with an invalid
// scheduled time.
func sortJobs(all []kbatch.Job, bad func(*kbatch.Job, error)) jobs {
	slices.SortFunc(all, func(a, b kbatch.Job) int { return strings.Compare(a.Name, b.Name) })
	var js jobs
	for i := range all {
		job := &all[i]
		switch finished(job) {
		case "":
			js.active = append(js.active, job)
		case kbatch.JobFailed:
			js.failed = append(js.failed, job)
		case kbatch.JobComplete:
			js.successful = append(js.successful, job)
		}
		scheduled, err := scheduledTime(job)
		if err != nil {
			bad(job, err)
			continue
		}
		if scheduled.After(js.lastSchedule) {
			js.newest, js.lastSchedule = job, scheduled
		}
	}
	return js
}

// finished returns JobComplete or JobFailed for a job that has ended, and otherwise "".
func finished(job *kbatch.Job) kbatch.JobConditionType {
	for _, c := range job.Status.Conditions {
		if (c.Type == kbatch.JobComplete || c.Type == kbatch.JobFailed) && c.Status == corev1.ConditionTrue {
			return c.Type
		}
	}
	return ""
}

// scheduledTime returns the scheduled time of a job, or zero if it has none.
func scheduledTime(job *kbatch.Job) (time.Time, error) {
	s := job.Annotations[scheduledTimeAnnotation]
	if s == "" {
		return time.Time{}, nil
	}
	return time.Parse(time.RFC3339, s)
}

// surplus returns the oldest finished jobs beyond the limit. It never returns the newest of all
// jobs, from which the controller knows that it has handled that time.
func (js *jobs) surplus(ended []*kbatch.Job, limit *int32) []*kbatch.Job {
	if limit == nil {
		return nil
	}
	ended = slices.SortedStableFunc(slices.Values(ended), func(a, b *kbatch.Job) int {
		x, y := a.Status.StartTime, b.Status.StartTime
		switch {
		case x == nil && y == nil:
			return 0
		case x == nil:
			return -1
		case y == nil:
			return 1
		}
		return x.Compare(y.Time)
	})
	over := max(0, len(ended)-max(0, int(*limit)))
	return slices.DeleteFunc(ended[:over], func(job *kbatch.Job) bool { return job == js.newest })
}

// newJob returns the job of a CronJob for a time. The name depends only on both, so no time gets
// two jobs.
func newJob(cronJob *batchv1.CronJob, scheduled time.Time) *kbatch.Job {
	template := &cronJob.Spec.JobTemplate
	annotations := maps.Clone(template.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[scheduledTimeAnnotation] = scheduled.Format(time.RFC3339)
	return &kbatch.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name:        fmt.Sprintf("%s-%d", cronJob.Name, scheduled.Unix()),
			Namespace:   cronJob.Namespace,
			Labels:      maps.Clone(template.Labels),
			Annotations: annotations,
		},
		Spec: *template.Spec.DeepCopy(),
	}
}
