// Package ttlafterfinished deletes Jobs spec.ttlSecondsAfterFinished seconds after they have
// finished.
//
// The package starts no goroutine and has no state: each finished Job is a delayed request in the
// queue.
package ttlafterfinished

import (
	"context"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controller"
	"github.com/kapok-dev/kapok/controller/handler"
	"github.com/kapok-dev/kapok/controllers/internal/job"
	"github.com/kapok-dev/kapok/manager"
	"github.com/kapok-dev/kapok/workqueue"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// workers is the number of Jobs that are reconciled at once, as in kube-controller-manager.
	workers = 5
	// The pauses between attempts after errors.
	firstPause, longestPause = 5 * time.Millisecond, time.Minute
)

// Add adds the controller to a manager.
func Add(m manager.Manager) error {
	return controller.NewControllerManagedBy(m).Named("ttl-after-finished-controller").
		Watches(&batchv1.Job{}, jobs).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers,
			RateLimiter:             workqueue.ExponentialBackoff[controller.Request](firstPause, longestPause),
		}).
		Complete(&reconciler{m.GetClient()})
}

// jobs is the handler of events of Jobs: those that expire are of interest.
var jobs = handler.Funcs{
	CreateFunc: func(_ context.Context, e handler.CreateEvent, q handler.Queue) { add(e.Object.(*batchv1.Job), q) },
	UpdateFunc: func(_ context.Context, e handler.UpdateEvent, q handler.Queue) { add(e.ObjectNew.(*batchv1.Job), q) },
}

func add(j *batchv1.Job, q handler.Queue) {
	if _, ok := expires(j); ok {
		q.Add(handler.RequestFor(j))
	}
}

// expires returns the time at which a Job is to be deleted, and whether it is to be deleted at all.
// A Job without the time at which it finished is kept.
func expires(j *batchv1.Job) (time.Time, bool) {
	end, ttl := job.Finished(j), j.Spec.TTLSecondsAfterFinished
	if j.DeletionTimestamp != nil || ttl == nil || end == nil || end.LastTransitionTime.IsZero() {
		return time.Time{}, false
	}
	return end.LastTransitionTime.Add(time.Duration(*ttl) * time.Second), true
}

type reconciler struct{ client client.Client }

// Reconcile implements controller.Reconciler.
func (r *reconciler) Reconcile(ctx context.Context, req controller.Request) (controller.Result, error) {
	var j batchv1.Job
	if err := r.client.Get(ctx, req.NamespacedName, &j, client.UnsafeDisableDeepCopy); err != nil {
		return controller.Result{}, client.IgnoreNotFound(err)
	}
	at, ok := expires(&j)
	if !ok {
		return controller.Result{}, nil
	}
	if left := time.Until(at); left > 0 {
		return controller.Result{RequeueAfter: left}, nil
	}
	// A Job that has changed is not deleted: its time may have, too.
	err := r.client.Delete(ctx, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: j.Namespace, Name: j.Name}},
		client.Preconditions{UID: &j.UID, ResourceVersion: &j.ResourceVersion}, client.PropagationPolicy(metav1.DeletePropagationForeground))
	return controller.Result{}, client.IgnoreNotFound(err)
}
