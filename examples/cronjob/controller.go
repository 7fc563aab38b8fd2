package main

import (
	"context"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/ctrl"
	batchv1 "github.com/kapok-dev/kapok/examples/cronjob/api/v1"

	kbatch "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/reference"
)

// jobOwnerKey is the index of jobs by the name of the CronJob that controls them.
const jobOwnerKey = ".metadata.controller"

// CronJobReconciler creates the jobs of CronJobs when they are due, and deletes old ones.
type CronJobReconciler struct {
	client.Client
	Scheme *runtime.Scheme
	Clock  // default: that of the machine
}

// Clock returns the current time.
type Clock interface {
	Now() time.Time
}

type realClock struct{}

func (realClock) Now() time.Time { return time.Now() }

// +kubebuilder:rbac:groups=batch.tutorial.kubebuilder.io,resources=cronjobs,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=batch.tutorial.kubebuilder.io,resources=cronjobs/status,verbs=get;update;patch
// +kubebuilder:rbac:groups=batch.tutorial.kubebuilder.io,resources=cronjobs/finalizers,verbs=update
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=batch,resources=jobs/status,verbs=get

// Reconcile starts the job of a CronJob if one is due, and returns the time of the next start.
func (r *CronJobReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	log := ctrl.LoggerFrom(ctx)

	// 1: load the CronJob. If it is deleted, or being deleted, there is nothing to do.
	var cronJob batchv1.CronJob
	if err := r.Get(ctx, req.NamespacedName, &cronJob); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !cronJob.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}

	// 2: list its jobs, and update the status. The status follows from the jobs alone.
	var children kbatch.JobList
	if err := r.List(ctx, &children, client.InNamespace(req.Namespace), client.MatchingFields{jobOwnerKey: req.Name}); err != nil {
		log.Error(err, "unable to list child Jobs")
		return ctrl.Result{}, err
	}
	jobs := sortJobs(children.Items, func(job *kbatch.Job, err error) {
		log.Error(err, "unable to parse schedule time for child job", "job", job.Name)
	})
	log.V(1).Info("job count", "active jobs", len(jobs.active), "successful jobs", len(jobs.successful), "failed jobs", len(jobs.failed))
	if err := r.updateStatus(ctx, &cronJob, &jobs); apierrors.IsNotFound(err) {
		return ctrl.Result{}, nil // its jobs have gone with it, of which the cache has heard first
	} else if err != nil {
		log.Error(err, "unable to update CronJob status")
		return ctrl.Result{}, err
	}

	// 3: delete the oldest jobs beyond the limits, best effort: the next reconcile retries.
	r.deleteOld(ctx, "failed", jobs.surplus(jobs.failed, cronJob.Spec.FailedJobsHistoryLimit))
	r.deleteOld(ctx, "successful", jobs.surplus(jobs.successful, cronJob.Spec.SuccessfulJobsHistoryLimit))

	// 4: stop here if the CronJob is suspended.
	if suspend := cronJob.Spec.Suspend; suspend != nil && *suspend {
		log.V(1).Info("cronjob suspended, skipping")
		return ctrl.Result{}, nil
	}

	// 5: compute the missed start, if any, and the next one.
	now := r.Now()
	missed, next, err := nextSchedule(&cronJob, now)
	if err != nil {
		// Do not retry: only a new schedule helps, and that is a change of the CronJob.
		log.Error(err, "unable to figure out CronJob schedule")
		return ctrl.Result{}, nil
	}
	untilNext := ctrl.Result{}
	if !next.IsZero() {
		untilNext.RequeueAfter = next.Sub(now)
	}
	log = log.WithValues("now", now, "next run", next)

	// 6: start the missed job, unless its deadline has passed, or the concurrency policy forbids
	// it.
	if missed.IsZero() {
		log.V(1).Info("no upcoming scheduled times, sleeping until next")
		return untilNext, nil
	}
	log = log.WithValues("current run", missed)
	if deadline := cronJob.Spec.StartingDeadlineSeconds; deadline != nil && missed.Add(seconds(*deadline)).Before(r.Now()) {
		log.V(1).Info("missed starting deadline for last run, sleeping till next")
		return untilNext, nil
	}
	switch cronJob.Spec.ConcurrencyPolicy {
	case batchv1.ForbidConcurrent:
		if len(jobs.active) > 0 {
			log.V(1).Info("concurrency policy blocks concurrent runs, skipping", "num active", len(jobs.active))
			return untilNext, nil
		}
	case batchv1.ReplaceConcurrent:
		for _, job := range jobs.active {
			if err := r.delete(ctx, job); err != nil {
				log.Error(err, "unable to delete active job", "job", job.Name)
				return ctrl.Result{}, err
			}
		}
	}
	job := newJob(&cronJob, missed)
	if err := ctrl.SetControllerReference(&cronJob, job, r.Scheme); err != nil {
		log.Error(err, "unable to construct job from template")
		return untilNext, nil
	}
	if err := r.Create(ctx, job); err != nil {
		log.Error(err, "unable to create Job for CronJob", "job", job.Name)
		return ctrl.Result{}, err
	}
	log.V(1).Info("created Job for CronJob run", "job", job.Name)

	// 7: requeue for the next start. Changes of the CronJob and of its jobs, such as the new one,
	// cause a reconcile before that.
	return untilNext, nil
}

// updateStatus writes the state of the jobs into the status, if it has changed.
func (r *CronJobReconciler) updateStatus(ctx context.Context, cronJob *batchv1.CronJob, jobs *jobs) error {
	var status batchv1.CronJobStatus
	if jobs.newest != nil {
		status.LastScheduleTime = &metav1.Time{Time: jobs.lastSchedule}
	}
	for _, job := range jobs.active {
		ref, err := reference.GetReference(r.Scheme, job)
		if err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "unable to make reference to active job", "job", job.Name)
			continue
		}
		status.Active = append(status.Active, *ref)
	}
	if equality.Semantic.DeepEqual(status, cronJob.Status) {
		return nil
	}
	cronJob.Status = status
	return r.Status().Update(ctx, cronJob)
}

// deleteOld deletes finished jobs, and logs the result.
func (r *CronJobReconciler) deleteOld(ctx context.Context, outcome string, old []*kbatch.Job) {
	log := ctrl.LoggerFrom(ctx)
	for _, job := range old {
		if err := r.delete(ctx, job); err != nil {
			log.Error(err, "unable to delete old "+outcome+" job", "job", job.Name)
			continue
		}
		log.Info("deleted old "+outcome+" job", "job", job.Name)
	}
}

// delete deletes a job, and its pods in the background. A missing job is not an error.
func (r *CronJobReconciler) delete(ctx context.Context, job *kbatch.Job) error {
	return client.IgnoreNotFound(r.Delete(ctx, job, client.PropagationPolicy(metav1.DeletePropagationBackground)))
}

// SetupWithManager adds the controller to a manager. It reconciles a CronJob when the CronJob or
// one of its jobs changes.
func (r *CronJobReconciler) SetupWithManager(mgr ctrl.Manager) error {
	if r.Clock == nil {
		r.Clock = realClock{}
	}
	if err := mgr.GetFieldIndexer().IndexField(context.Background(), &kbatch.Job{}, jobOwnerKey, cronJobOf); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).
		For(&batchv1.CronJob{}).
		Owns(&kbatch.Job{}).
		Complete(r)
}

// cronJobOf returns the name of the CronJob that controls a job, if any.
func cronJobOf(job client.Object) []string {
	owner := metav1.GetControllerOf(job)
	if owner == nil || owner.APIVersion != batchv1.GroupVersion.String() || owner.Kind != "CronJob" {
		return nil
	}
	return []string{owner.Name}
}
