// Package controller makes the jobs of CronJobs.
package controller

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
	kbatch "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/reference"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	batchv1 "tutorial.kubebuilder.io/project/api/v1"
)

const (
	// jobOwnerKey is the index of jobs by the name of the CronJob that controls them.
	jobOwnerKey = ".metadata.controller"

	// scheduledTimeAnnotation says of a job for which time it was made.
	scheduledTimeAnnotation = "batch.tutorial.kubebuilder.io/scheduled-at"

	// typeAvailable is the condition that a CronJob does as its schedule says.
	typeAvailable = "Available"

	// maxMissed is how many starts may have been missed. After more, a clock or a schedule is wrong.
	maxMissed = 100
)

// CronJobReconciler makes the jobs of CronJobs when they are due, and deletes old ones.
type CronJobReconciler struct {
	client.Client
	Scheme *runtime.Scheme
}

// +kubebuilder:rbac:groups=batch.tutorial.kubebuilder.io,resources=cronjobs,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=batch.tutorial.kubebuilder.io,resources=cronjobs/status,verbs=get;update;patch
// +kubebuilder:rbac:groups=batch.tutorial.kubebuilder.io,resources=cronjobs/finalizers,verbs=update
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=batch,resources=jobs/status,verbs=get

// Reconcile does for one CronJob what is due, and says when it is to be called again.
func (r *CronJobReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	log := logf.FromContext(ctx)

	var cronJob batchv1.CronJob
	if err := r.Get(ctx, req.NamespacedName, &cronJob); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !cronJob.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	var children kbatch.JobList
	if err := r.List(ctx, &children, client.InNamespace(req.Namespace), client.MatchingFields{jobOwnerKey: req.Name}); err != nil {
		return ctrl.Result{}, fmt.Errorf("list jobs: %w", err)
	}
	// The cache lists in no order. In the status there is one, or each reconcile would write it anew.
	slices.SortFunc(children.Items, func(a, b kbatch.Job) int { return strings.Compare(a.Name, b.Name) })
	var active, successful, failed []*kbatch.Job
	var last time.Time
	for i := range children.Items {
		job := &children.Items[i]
		switch finished(job) {
		case kbatch.JobComplete:
			successful = append(successful, job)
		case kbatch.JobFailed:
			failed = append(failed, job)
		default:
			active = append(active, job)
		}
		if at, err := time.Parse(time.RFC3339, job.Annotations[scheduledTimeAnnotation]); err == nil && at.After(last) {
			last = at
		}
	}
	if err := r.updateStatus(ctx, &cronJob, active, failed, last); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	for _, old := range [][]*kbatch.Job{
		surplus(failed, cronJob.Spec.FailedJobsHistoryLimit),
		surplus(successful, cronJob.Spec.SuccessfulJobsHistoryLimit),
	} {
		for _, job := range old {
			if err := r.delete(ctx, job); err != nil {
				return ctrl.Result{}, err
			}
		}
	}
	if suspend := cronJob.Spec.Suspend; suspend != nil && *suspend {
		return ctrl.Result{}, nil
	}

	now := time.Now()
	missed, next, err := nextSchedule(&cronJob, now)
	if err != nil {
		// Another try does not mend a schedule; a change of it comes back here.
		log.Error(err, "unable to figure out the schedule")
		return ctrl.Result{}, nil
	}
	untilNext := ctrl.Result{}
	if !next.IsZero() {
		untilNext.RequeueAfter = next.Sub(now)
	}
	if missed.IsZero() {
		return untilNext, nil
	}
	if deadline := cronJob.Spec.StartingDeadlineSeconds; deadline != nil && missed.Add(time.Duration(*deadline)*time.Second).Before(now) {
		log.Info("missed the starting deadline", "run", missed)
		return untilNext, nil
	}
	switch cronJob.Spec.ConcurrencyPolicy {
	case batchv1.ForbidConcurrent:
		if len(active) > 0 {
			return untilNext, nil
		}
	case batchv1.ReplaceConcurrent:
		for _, job := range active {
			if err := r.delete(ctx, job); err != nil {
				return ctrl.Result{}, err
			}
		}
	}
	job := newJob(&cronJob, missed)
	if err := ctrl.SetControllerReference(&cronJob, job, r.Scheme); err != nil {
		return ctrl.Result{}, err
	}
	// The name follows from the time, and so a cache that is behind makes no second job.
	if err := r.Create(ctx, job); client.IgnoreAlreadyExists(err) != nil {
		return ctrl.Result{}, fmt.Errorf("create job %s: %w", job.Name, err)
	}
	log.V(1).Info("created a job", "job", job.Name, "run", missed)
	return untilNext, nil
}

// updateStatus writes into the status what the jobs say, if it does not say so yet.
func (r *CronJobReconciler) updateStatus(ctx context.Context, cronJob *batchv1.CronJob, active, failed []*kbatch.Job, last time.Time) error {
	status := cronJob.Status.DeepCopy()
	if status.LastScheduleTime == nil && !last.IsZero() || status.LastScheduleTime != nil && last.After(status.LastScheduleTime.Time) {
		status.LastScheduleTime = &metav1.Time{Time: last}
	}
	status.Active = nil
	for _, job := range active {
		ref, err := reference.GetReference(r.Scheme, job)
		if err != nil {
			return err
		}
		status.Active = append(status.Active, *ref)
	}
	condition := metav1.Condition{Type: typeAvailable, Status: metav1.ConditionTrue, Reason: "NoJobsActive", Message: "waits for its time"}
	switch suspend := cronJob.Spec.Suspend; {
	case suspend != nil && *suspend:
		condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, "Suspended", "is suspended"
	case len(active) > 0:
		condition.Reason, condition.Message = "JobsActive", fmt.Sprintf("jobs that run: %d", len(active))
	case len(failed) > 0:
		condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, "JobsFailed", fmt.Sprintf("jobs that failed: %d", len(failed))
	}
	meta.SetStatusCondition(&status.Conditions, condition)
	if equality.Semantic.DeepEqual(*status, cronJob.Status) {
		return nil
	}
	cronJob.Status = *status
	return r.Status().Update(ctx, cronJob)
}

// delete deletes a job, and its pods after it. One that is gone is fine.
func (r *CronJobReconciler) delete(ctx context.Context, job *kbatch.Job) error {
	return client.IgnoreNotFound(r.Delete(ctx, job, client.PropagationPolicy(metav1.DeletePropagationBackground)))
}

// SetupWithManager has a manager call Reconcile for each CronJob that changes, and for that to which a changed job belongs.
func (r *CronJobReconciler) SetupWithManager(mgr ctrl.Manager) error {
	err := mgr.GetFieldIndexer().IndexField(context.Background(), &kbatch.Job{}, jobOwnerKey, func(job client.Object) []string {
		owner := metav1.GetControllerOf(job)
		if owner == nil || owner.APIVersion != batchv1.GroupVersion.String() || owner.Kind != "CronJob" {
			return nil
		}
		return []string{owner.Name}
	})
	if err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).
		For(&batchv1.CronJob{}).
		Owns(&kbatch.Job{}).
		Named("cronjob").
		Complete(r)
}

// finished is JobComplete or JobFailed if the job has ended so, else "".
func finished(job *kbatch.Job) kbatch.JobConditionType {
	for _, c := range job.Status.Conditions {
		if (c.Type == kbatch.JobComplete || c.Type == kbatch.JobFailed) && c.Status == corev1.ConditionTrue {
			return c.Type
		}
	}
	return ""
}

// surplus returns the oldest of some finished jobs, as many as there are over the limit.
func surplus(ended []*kbatch.Job, limit *int32) []*kbatch.Job {
	if limit == nil {
		return nil
	}
	slices.SortStableFunc(ended, func(a, b *kbatch.Job) int { return started(a).Compare(started(b)) })
	return ended[:max(0, len(ended)-int(*limit))]
}

func started(job *kbatch.Job) time.Time {
	if job.Status.StartTime == nil {
		return time.Time{}
	}
	return job.Status.StartTime.Time
}

// nextSchedule returns the newest time until now at which a job should have been started and was not, and the next time after
// now. Either is zero if there is none.
func nextSchedule(cronJob *batchv1.CronJob, now time.Time) (missed, next time.Time, err error) {
	schedule, err := cron.ParseStandard(cronJob.Spec.Schedule)
	if err != nil {
		return time.Time{}, time.Time{}, fmt.Errorf("schedule %q: %w", cronJob.Spec.Schedule, err)
	}
	since := cronJob.CreationTimestamp.Time
	if last := cronJob.Status.LastScheduleTime; last != nil {
		since = last.Time
	}
	if deadline := cronJob.Spec.StartingDeadlineSeconds; deadline != nil {
		if earliest := now.Add(-time.Duration(*deadline) * time.Second); earliest.After(since) {
			since = earliest
		}
	}
	// Times of the API have an offset, not a zone; the schedule is in that of now.
	next = schedule.Next(since.In(now.Location()))
	for starts := 0; !next.IsZero() && !next.After(now); next = schedule.Next(next) {
		missed = next
		if starts++; starts > maxMissed {
			return time.Time{}, time.Time{}, fmt.Errorf("more than %d starts were missed", maxMissed)
		}
	}
	return missed, next, nil
}

// newJob makes the job of a CronJob for a time.
func newJob(cronJob *batchv1.CronJob, scheduled time.Time) *kbatch.Job {
	template := cronJob.Spec.JobTemplate.DeepCopy()
	job := &kbatch.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name:        fmt.Sprintf("%s-%d", cronJob.Name, scheduled.Unix()),
			Namespace:   cronJob.Namespace,
			Labels:      template.Labels,
			Annotations: map[string]string{},
		},
		Spec: template.Spec,
	}
	maps.Copy(job.Annotations, template.Annotations)
	job.Annotations[scheduledTimeAnnotation] = scheduled.Format(time.RFC3339)
	return job
}
