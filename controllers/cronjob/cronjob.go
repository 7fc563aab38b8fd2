// Package cronjob starts the Jobs of CronJobs, one for each time of the schedule, as the
// concurrency policy, the deadline and the suspension allow, and deletes the oldest finished ones.
//
// # Slots
//
// A slot is a time of the schedule. The Job of a slot is named after it, so that the server rejects
// a second one while the first exists. If several slots were missed, only the latest is started.
//
// A slot is not started twice, even if its Job has finished and was deleted.
// status.lastScheduleTime is the slot that was started last; until the cache has it, the controller
// keeps it in memory. If the process ends between the creation of a Job and the write of the
// status, the next process finds the Job by its name and annotation, and does not delete it before
// its slot is written. One case is not covered: the process ends there, and another client deletes
// the Job before the next process starts.
//
// # Time
//
// A CronJob is reconciled at its events and at its next slot. Timers follow the monotonic clock.
// The type clock detects jumps of the wall clock, including the time for which the machine was
// suspended, and requests a reconcile of all CronJobs. After a jump forward, each starts its latest
// slot; after a jump back, none before the slot that follows the last one.
//
// The only goroutine is that of clock, which the manager owns. The only state in memory are the
// slots that the cache does not have yet; their lock is held only during a lookup.
package cronjob

import (
	"context"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controller"
	"github.com/kapok-dev/kapok/controller/handler"
	"github.com/kapok-dev/kapok/controllers/internal/owned"
	"github.com/kapok-dev/kapok/manager"
	"github.com/kapok-dev/kapok/workqueue"

	"github.com/prometheus/client_golang/prometheus"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/ptr"
)

const (
	name = "cronjob-controller"
	// workers is the number of CronJobs that are reconciled at once, as in kube-controller-manager.
	workers = 5
	// The pauses between attempts after errors. Kubernetes waits for up to 1,000 s, in which a slot
	// may pass.
	firstPause, longestPause = 5 * time.Millisecond, time.Minute
)

var gvk = batchv1.SchemeGroupVersion.WithKind("CronJob")

// Add adds the controller to a manager.
func Add(m manager.Manager) error { return add(m, time.Now) }

// add adds the controller with a wall clock of its own.
func add(m manager.Manager, now func() time.Time) error {
	skew, err := newSkew(m.GetMetricsRegistry())
	if err != nil {
		return err
	}
	r := &reconciler{client: m.GetClient(), live: m.GetAPIReader(), events: m.GetEventRecorderFor(name), now: now, skew: skew}
	if err := owned.Index(m, &batchv1.Job{}); err != nil {
		return err
	}
	c := &clock{now: now, client: m.GetClient(), jumps: make(chan handler.GenericEvent)}
	if err := m.Add(c); err != nil {
		return err
	}
	return controller.NewControllerManagedBy(m).Named(name).
		Watches(&batchv1.CronJob{}, r.cronJobs()).
		Watches(&batchv1.Job{}, owned.Events{Kind: gvk.GroupKind(), Adopters: adoptsNone}.Handler()).
		WatchesRawSource(controller.Channel(c.jumps, handler.EnqueueRequestForObject{})).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers,
			RateLimiter:             workqueue.ExponentialBackoff[controller.Request](firstPause, longestPause),
		}).
		Complete(r)
}

// adoptsNone says that no CronJob adopts a Job: Jobs are those that it controls.
func adoptsNone(context.Context, client.Object) []handler.Request { return nil }

// reconciler implements controller.Reconciler.
type reconciler struct {
	client client.Client
	live   client.Reader // not from the cache
	events record.EventRecorder
	now    func() time.Time
	skew   prometheus.Histogram
	starts starts
}

// cronJobs returns the handler of events of CronJobs. A new schedule counts from its next slot on:
// it is no reason to start an earlier one.
func (r *reconciler) cronJobs() handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e handler.CreateEvent, q handler.Queue) { q.Add(handler.RequestFor(e.Object)) },
		DeleteFunc: func(_ context.Context, e handler.DeleteEvent, q handler.Queue) { q.Add(handler.RequestFor(e.Object)) },
		UpdateFunc: func(_ context.Context, e handler.UpdateEvent, q handler.Queue) {
			before, after := e.ObjectOld.(*batchv1.CronJob), e.ObjectNew.(*batchv1.CronJob)
			if before.Spec.Schedule == after.Spec.Schedule && ptr.Equal(before.Spec.TimeZone, after.Spec.TimeZone) {
				q.Add(handler.RequestFor(after))
				return
			}
			pause := time.Duration(0)
			if schedule, err := parse(after); err == nil {
				pause = untilNext(schedule, after, r.now())
			}
			q.AddAfter(handler.RequestFor(after), pause)
		},
	}
}

// Reconcile implements controller.Reconciler.
func (r *reconciler) Reconcile(ctx context.Context, req controller.Request) (controller.Result, error) {
	var cached batchv1.CronJob
	if err := r.client.Get(ctx, req.NamespacedName, &cached, client.UnsafeDisableDeepCopy); err != nil {
		if client.IgnoreNotFound(err) == nil {
			r.starts.forget(req.NamespacedName)
		}
		return controller.Result{}, client.IgnoreNotFound(err)
	}
	var jobs batchv1.JobList
	if err := owned.List(ctx, r.client, &jobs, cached.Namespace, cached.UID); err != nil {
		return controller.Result{}, err
	}
	p := &pass{reconciler: r, cron: cached.DeepCopy(), jobs: owned.Pointers(jobs.Items), now: r.now()}
	next, err := p.run(ctx)
	if !equality.Semantic.DeepEqual(cached.Status, p.cron.Status) {
		if err := r.client.Status().Update(ctx, p.cron); err != nil {
			return controller.Result{}, client.IgnoreNotFound(err)
		}
	}
	return controller.Result{RequeueAfter: next}, err
}
