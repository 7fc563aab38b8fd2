// Package endpoints maintains the Endpoints of Services with a selector, as Kubernetes' controller
// of this name does. Package endpointslice maintains EndpointSlices, which replace them.
//
// The package starts no goroutine.
package endpoints

import (
	"context"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controller"
	"github.com/kapok-dev/kapok/controller/handler"
	"github.com/kapok-dev/kapok/controllers/internal/service"
	"github.com/kapok-dev/kapok/manager"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
	"k8s.io/endpointslice/util"
)

// workers is the number of Services that are reconciled at once, as in kube-controller-manager.
const workers = 5

// Add adds the controller to a manager.
func Add(m manager.Manager) error {
	r := &reconciler{client: m.GetClient(), events: m.GetEventRecorderFor("endpoint-controller"), times: util.NewTriggerTimeTracker()}
	if err := service.Index(m); err != nil {
		return err
	}
	return controller.NewControllerManagedBy(m).Named("endpoints-controller").
		For(&corev1.Service{}).
		Watches(&corev1.Pod{}, service.ByPod(r.client)).
		Watches(&corev1.Endpoints{}, ofService).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(r)
}

// ofService adds requests for Endpoints that are deleted, and for those that exist at the start:
// their Service may have been deleted while no controller ran. Endpoints that are a lock of a
// leader election have no Service.
var ofService = handler.Funcs{
	CreateFunc: func(_ context.Context, e handler.CreateEvent, q handler.Queue) {
		if _, locks := e.Object.GetAnnotations()[resourcelock.LeaderElectionRecordAnnotationKey]; e.IsInInitialList && !locks {
			q.Add(handler.RequestFor(e.Object))
		}
	},
	DeleteFunc: func(_ context.Context, e handler.DeleteEvent, q handler.Queue) {
		q.Add(handler.RequestFor(e.Object))
	},
}

// reconciler is the Reconciler of Services.
type reconciler struct {
	client client.Client
	events record.EventRecorder
	times  *util.TriggerTimeTracker // when pods and Services changed last; it has a lock of its own
}

// Reconcile implements controller.Reconciler.
func (r *reconciler) Reconcile(ctx context.Context, req controller.Request) (controller.Result, error) {
	var s corev1.Service
	if err := r.client.Get(ctx, req.NamespacedName, &s, client.UnsafeDisableDeepCopy); apierrors.IsNotFound(err) {
		r.times.DeleteService(req.Namespace, req.Name)
		return controller.Result{}, r.delete(ctx, req)
	} else if err != nil {
		return controller.Result{}, err
	}
	if s.Spec.Type == corev1.ServiceTypeExternalName || s.Spec.Selector == nil {
		return controller.Result{}, nil // its Endpoints, if it has any, are made by others
	}
	pods, err := service.Pods(ctx, r.client, &s)
	if err != nil {
		return controller.Result{}, err
	}
	changed := r.times.ComputeEndpointLastChangeTriggerTime(s.Namespace, &s, pods)
	return controller.Result{}, r.write(ctx, &s, subsetsOf(&s, pods), changed)
}

// delete deletes the Endpoints of a Service that does not exist.
func (r *reconciler) delete(ctx context.Context, req controller.Request) error {
	var e corev1.Endpoints
	if err := r.client.Get(ctx, req.NamespacedName, &e, client.UnsafeDisableDeepCopy); err != nil {
		return client.IgnoreNotFound(err)
	}
	gone := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: req.Namespace, Name: req.Name}}
	return client.IgnoreNotFound(r.client.Delete(ctx, gone))
}

// write creates or updates the Endpoints of a Service if they differ from these subsets. changed is
// when what they depend on has changed, or zero.
func (r *reconciler) write(ctx context.Context, s *corev1.Service, subsets []corev1.EndpointSubset, changed time.Time) error {
	subsets, over := limited(subsets)
	var now corev1.Endpoints
	err := r.client.Get(ctx, client.ObjectKeyFromObject(s), &now, client.UnsafeDisableDeepCopy)
	exists := err == nil
	switch {
	case exists && upToDate(&now, s, subsets, over):
		return nil
	case client.IgnoreNotFound(err) != nil:
		return err
	}
	next := now.DeepCopy()
	next.Namespace, next.Name = s.Namespace, s.Name
	fill(next, s, subsets, over, changed)
	if exists {
		if err := r.client.Update(ctx, next); err != nil {
			r.events.Eventf(next, corev1.EventTypeWarning, "FailedToUpdateEndpoint", "Failed to update endpoint %v/%v: %v", s.Namespace, s.Name, err)
			return err
		}
		return nil
	}
	switch err := r.client.Create(ctx, next); {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil // any further creation would fail, too
	case err != nil:
		r.events.Eventf(next, corev1.EventTypeWarning, "FailedToCreateEndpoint", "Failed to create endpoint for service %v/%v: %v", s.Namespace, s.Name, err)
		return err
	}
	return nil
}
