package cronjob

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controllers/internal/job"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// jobName returns the name of the Job of a slot. It has the minute, so that slots of one minute,
// which only a schedule such as "@every 30s" has, share a Job.
func jobName(c *batchv1.CronJob, slot time.Time) string {
	return fmt.Sprintf("%s-%d", c.Name, slot.Unix()/60)
}

// newJob returns the Job of a slot.
func newJob(c *batchv1.CronJob, slot time.Time) (*batchv1.Job, error) {
	zone, err := time.LoadLocation(ptr.Deref(c.Spec.TimeZone, ""))
	if err != nil {
		return nil, err
	}
	template := &c.Spec.JobTemplate
	annotations := map[string]string{}
	maps.Copy(annotations, template.Annotations)
	annotations[batchv1.CronJobScheduledTimestampAnnotation] = slot.In(zone).Format(time.RFC3339)
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: c.Namespace, Name: jobName(c, slot),
			Labels: maps.Clone(template.Labels), Annotations: annotations,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(c, gvk)},
		},
		Spec: *template.Spec.DeepCopy(),
	}, nil
}

// clean deletes the oldest Jobs that have finished, beyond the limits of the history.
func (p *pass) clean(ctx context.Context) {
	var succeeded, failed []*batchv1.Job
	for _, j := range p.jobs {
		switch {
		case job.Finished(j) == nil:
		case job.Succeeded(j):
			succeeded = append(succeeded, j)
		default:
			failed = append(failed, j)
		}
	}
	p.deleteOldest(ctx, succeeded, p.cron.Spec.SuccessfulJobsHistoryLimit)
	p.deleteOldest(ctx, failed, p.cron.Spec.FailedJobsHistoryLimit)
}

// deleteOldest deletes the Jobs that started first, until at most limit are left.
func (p *pass) deleteOldest(ctx context.Context, jobs []*batchv1.Job, limit *int32) {
	if limit == nil || len(jobs) <= int(*limit) {
		return
	}
	slices.SortFunc(jobs, func(a, b *batchv1.Job) int {
		return cmp.Or(compareStarts(a.Status.StartTime, b.Status.StartTime), cmp.Compare(a.Name, b.Name))
	})
	for _, j := range jobs[:len(jobs)-int(*limit)] {
		if j.DeletionTimestamp == nil && p.delete(ctx, j) != nil {
			p.failed = true
		}
	}
}

// compareStarts compares times; one that is missing is the latest.
func compareStarts(a, b *metav1.Time) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return 1
	case b == nil:
		return -1
	}
	return a.Compare(b.Time)
}

// delete deletes a Job, then its pods, and takes it from those that are active.
func (p *pass) delete(ctx context.Context, j *batchv1.Job) error {
	err := p.client.Delete(ctx, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: j.Namespace, Name: j.Name}},
		client.Preconditions{UID: &j.UID}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	if client.IgnoreNotFound(err) != nil {
		p.warn("FailedDelete", "Deleted job: %v", err)
		return err
	}
	p.remove(j.UID)
	if err == nil {
		p.event("SuccessfulDelete", "Deleted job %v", j.Name)
	}
	return nil
}
