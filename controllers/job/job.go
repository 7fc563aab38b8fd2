// Package job runs the pods of Jobs until enough of them have succeeded, or too many have failed,
// as Kubernetes' job controller does.
//
// A reconcile is one pass over a Job (pass.go). It
//
//  1. claims the pods that the selector matches,
//  2. counts those that have ended since the last pass,
//  3. decides whether the Job has failed or succeeded (outcome.go),
//  4. creates or deletes pods (manage.go), and
//  5. writes the status and releases the pods that it has counted (track.go).
//
// # Exact counts
//
// Each pod has the finalizer batch.kubernetes.io/job-tracking until it is counted, so that no pod
// vanishes before. A pod is counted in three writes: its uid enters
// status.uncountedTerminatedPods, its finalizer is removed, and its uid leaves the list and enters
// the counters. A pass that is interrupted anywhere between them is completed by the next one.
// Completion indexes need no uids: they are a set.
//
// The manager's client reads its own writes: after a finalizer has been removed, no later pass
// finds the pod with it, and no pod is counted twice.
//
// A second controller (orphans.go) removes the finalizer from pods whose Job is deleted or
// finished.
//
// The package starts no goroutine that outlives a reconcile. The only state in memory is the
// backoff of each Job; its lock is held for a lookup only.
package job

import (
	"context"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controller"
	"github.com/kapok-dev/kapok/controllers/internal/owned"
	"github.com/kapok-dev/kapok/manager"
	"github.com/kapok-dev/kapok/workqueue"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
)

var gvk = batchv1.SchemeGroupVersion.WithKind("Job")

const (
	// batchPeriod is the time for which events of pods are collected before their Job is reconciled.
	batchPeriod = time.Second
	// burst is the maximum number of pods that a pass creates, deletes or counts.
	burst = 500
	// workers is the number of Jobs that are reconciled at once, as in kube-controller-manager.
	workers = 5
)

// Add adds the controller of Jobs to a manager.
func Add(m manager.Manager) error {
	metrics, err := newMetrics(m.GetMetricsRegistry())
	if err != nil {
		return err
	}
	r := &reconciler{client: m.GetClient(), metrics: metrics, live: m.GetAPIReader(), events: m.GetEventRecorderFor("job-controller")}
	if err := owned.Index(m, &corev1.Pod{}); err != nil {
		return err
	}
	options := controller.Options{
		MaxConcurrentReconciles: workers,
		RateLimiter:             workqueue.ExponentialBackoff[controller.Request](time.Second, time.Minute),
	}
	err = controller.NewControllerManagedBy(m).Named("job-controller").
		Watches(&batchv1.Job{}, jobEvents()).
		Watches(&corev1.Pod{}, batched(owned.Events{Kind: gvk.GroupKind(), Adopters: r.adopters}.Handler())).
		WithOptions(options).
		Complete(r)
	if err != nil {
		return err
	}
	o := &orphans{client: m.GetClient()}
	return controller.NewControllerManagedBy(m).Named("job-orphan-pods").
		Watches(&corev1.Pod{}, o.podEvents()).
		Watches(&batchv1.Job{}, o.jobEvents()).
		WithOptions(options).
		Complete(o)
}

// reconciler is the Reconciler of Jobs.
type reconciler struct {
	client   client.Client
	live     client.Reader // not from the cache
	events   record.EventRecorder
	metrics  metrics
	backoffs backoffs
}

// Reconcile implements controller.Reconciler.
func (r *reconciler) Reconcile(ctx context.Context, req controller.Request) (controller.Result, error) {
	var cached batchv1.Job
	if err := r.client.Get(ctx, req.NamespacedName, &cached, client.UnsafeDisableDeepCopy); err != nil {
		if client.IgnoreNotFound(err) == nil {
			r.backoffs.forget(req.NamespacedName)
		}
		return controller.Result{}, client.IgnoreNotFound(err)
	}
	if managedByOther(&cached) {
		return controller.Result{}, nil
	}
	if finished(&cached) {
		r.backoffs.forget(req.NamespacedName)
		return controller.Result{}, nil
	}
	if m := cached.Spec.CompletionMode; m != nil && *m != batchv1.NonIndexedCompletion && *m != batchv1.IndexedCompletion {
		r.events.Event(&cached, corev1.EventTypeWarning, "UnknownCompletionMode", "Skipped Job sync because completion mode is unknown")
		return controller.Result{}, nil
	}
	p := &pass{reconciler: r, job: cached.DeepCopy(), stored: cached.Status, now: time.Now(), action: reconciling}
	err := p.run(ctx)
	r.metrics.passed(p, err)
	if err != nil {
		return controller.Result{}, err
	}
	return controller.Result{RequeueAfter: p.again}, nil
}

// managedByOther reports whether spec.managedBy names another controller.
func managedByOther(job *batchv1.Job) bool {
	return job.Spec.ManagedBy != nil && *job.Spec.ManagedBy != batchv1.JobControllerName
}

func indexed(job *batchv1.Job) bool {
	return job.Spec.CompletionMode != nil && *job.Spec.CompletionMode == batchv1.IndexedCompletion
}

func suspended(job *batchv1.Job) bool { return job.Spec.Suspend != nil && *job.Spec.Suspend }

// replacesFailedOnly reports whether a pod that is being deleted is replaced only after it has
// ended.
func replacesFailedOnly(job *batchv1.Job) bool {
	return job.Spec.PodReplacementPolicy != nil && *job.Spec.PodReplacementPolicy == batchv1.Failed
}
