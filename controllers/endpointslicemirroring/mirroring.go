// Package endpointslicemirroring copies Endpoints that users write for Services without a selector
// into EndpointSlices, as Kubernetes' controller of this name does.
//
// The package starts no goroutine.
package endpointslicemirroring

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controller"
	"github.com/kapok-dev/kapok/controller/handler"
	"github.com/kapok-dev/kapok/controller/predicate"
	"github.com/kapok-dev/kapok/controllers/internal/slices"
	"github.com/kapok-dev/kapok/manager"
	"github.com/kapok-dev/kapok/workqueue"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
	"k8s.io/endpointslice/util"
)

const (
	// name is the value of the label endpointslice.kubernetes.io/managed-by.
	name = "endpointslicemirroring-controller.k8s.io"
	// most is the maximum number of addresses of a subset that are copied, the default of
	// kube-controller-manager.
	most = 1000
	// workers is the number of Endpoints that are reconciled at once, as in kube-controller-manager.
	workers = 5
)

// Add adds the controller to a manager.
func Add(m manager.Manager) error {
	r := &reconciler{client: m.GetClient(), events: m.GetEventRecorderFor("endpoint-slice-mirroring-controller"), tracker: util.NewEndpointSliceTracker()}
	if err := slices.Index(m); err != nil {
		return err
	}
	mirrored := predicate.Funcs{
		UpdateFunc: func(e handler.UpdateEvent) bool { return mirrors(e.ObjectOld) || mirrors(e.ObjectNew) },
		CreateFunc: func(e handler.CreateEvent) bool { return mirrors(e.Object) },
		DeleteFunc: func(e handler.DeleteEvent) bool { return mirrors(e.Object) },
	}
	selectorless := predicate.Funcs{
		UpdateFunc: func(e handler.UpdateEvent) bool { return selects(e.ObjectOld) != selects(e.ObjectNew) },
		CreateFunc: func(e handler.CreateEvent) bool { return !selects(e.Object) },
		DeleteFunc: func(e handler.DeleteEvent) bool { return !selects(e.Object) },
	}
	return controller.NewControllerManagedBy(m).Named("endpointslice-mirroring-controller").
		For(&corev1.Endpoints{}, controller.WithPredicates(mirrored)).
		Watches(&corev1.Service{}, &handler.EnqueueRequestForObject{}, controller.WithPredicates(selectorless)).
		Watches(&discoveryv1.EndpointSlice{}, slices.Handler(name, r.tracker)).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers,
			RateLimiter:             workqueue.MaxOf(workqueue.ExponentialBackoff[controller.Request](time.Second, 100*time.Second), workqueue.Bucket[controller.Request](10, 100)),
		}).
		Complete(r)
}

// mirrors reports whether Endpoints are to be copied if their Service has no selector. Those that
// are a lock of a leader election are not.
func mirrors(endpoints client.Object) bool {
	_, locks := endpoints.GetAnnotations()[resourcelock.LeaderElectionRecordAnnotationKey]
	return !locks && endpoints.GetLabels()[discoveryv1.LabelSkipMirror] != "true"
}

func selects(service client.Object) bool { return service.(*corev1.Service).Spec.Selector != nil }

// reconciler is the Reconciler of Endpoints.
type reconciler struct {
	client  client.Client
	events  record.EventRecorder
	tracker *util.EndpointSliceTracker // the generations of slices as they were written; it has a lock of its own
}

// Reconcile implements controller.Reconciler.
func (r *reconciler) Reconcile(ctx context.Context, req controller.Request) (controller.Result, error) {
	existing, err := slices.Of(ctx, r.client, req.NamespacedName, name)
	if err != nil {
		return controller.Result{}, err
	}
	endpoints, err := r.source(ctx, req)
	if err != nil {
		return controller.Result{}, err
	}
	if endpoints == nil {
		r.tracker.DeleteService(req.Namespace, req.Name)
		return controller.Result{}, r.delete(ctx, existing)
	}
	desired, skipped, invalid := copies(endpoints)
	if invalid > 0 {
		r.events.Eventf(endpoints, corev1.EventTypeWarning, "InvalidIPAddress", "Skipped %d invalid IP addresses when mirroring to EndpointSlices", invalid)
	}
	if skipped > 0 {
		r.events.Eventf(endpoints, corev1.EventTypeWarning, "TooManyAddressesToMirror",
			"A max of %d addresses can be mirrored to EndpointSlices per Endpoints subset. %d addresses were skipped", most, skipped+invalid)
	}
	return controller.Result{}, r.write(ctx, plan(endpoints, desired, existing))
}

// source returns the Endpoints to copy, or nil if there are none, or their Service does not exist
// or has a selector.
func (r *reconciler) source(ctx context.Context, req controller.Request) (*corev1.Endpoints, error) {
	var e corev1.Endpoints
	if err := r.client.Get(ctx, req.NamespacedName, &e, client.UnsafeDisableDeepCopy); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	var s corev1.Service
	if err := r.client.Get(ctx, req.NamespacedName, &s, client.UnsafeDisableDeepCopy); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if !mirrors(&e) || selects(&s) {
		return nil, nil
	}
	return &e, nil
}

// write creates, updates and deletes slices according to a plan.
func (r *reconciler) write(ctx context.Context, p writes) error {
	for _, s := range p.create {
		switch err := r.client.Create(ctx, s); {
		case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
			return nil // any further creation would fail, too
		case err != nil:
			return fmt.Errorf("create an EndpointSlice for Endpoints %s: %w", s.OwnerReferences[0].Name, err)
		}
		r.tracker.Update(s)
	}
	for _, s := range p.update {
		if err := r.client.Update(ctx, s); err != nil {
			return fmt.Errorf("update EndpointSlice %s: %w", s.Name, err)
		}
		r.tracker.Update(s)
	}
	return r.delete(ctx, p.delete)
}

// delete deletes slices. It goes on after an error; the error joins all of them.
func (r *reconciler) delete(ctx context.Context, all []*discoveryv1.EndpointSlice) error {
	var errs []error
	for _, s := range all {
		gone := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name}}
		if err := r.client.Delete(ctx, gone); client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("delete EndpointSlice %s: %w", s.Name, err))
			continue
		}
		r.tracker.ExpectDeletion(s)
	}
	return errors.Join(errs...)
}
