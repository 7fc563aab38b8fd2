// Package endpointslice maintains the EndpointSlices of Services with a selector, as Kubernetes'
// controller of this name does.
//
// The content of slices is computed by k8s.io/endpointslice, the library of Kubernetes' own
// controller. This package provides it with reads from the manager's cache and writes of the
// manager's client. A change of a pod costs the same with one Service as with thousands: see
// package controllers/internal/selected.
//
// The package starts no goroutine.
package endpointslice

import (
	"context"
	"sync"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controller"
	"github.com/kapok-dev/kapok/controllers/internal/service"
	"github.com/kapok-dev/kapok/controllers/internal/slices"
	"github.com/kapok-dev/kapok/manager"
	"github.com/kapok-dev/kapok/workqueue"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/record"
	"k8s.io/endpointslice"
	"k8s.io/endpointslice/topologycache"
	endpoints "k8s.io/endpointslice/util"
)

const (
	// name is the value of the label endpointslice.kubernetes.io/managed-by.
	name = "endpointslice-controller.k8s.io"
	// most is the maximum number of endpoints of a slice, the default of kube-controller-manager.
	most = 100
	// workers is the number of Services that are reconciled at once, as in kube-controller-manager.
	workers = 5
)

// Add adds the controller to a manager.
func Add(m manager.Manager) error {
	r := &reconciler{
		client:   m.GetClient(),
		events:   m.GetEventRecorderFor("endpoint-slice-controller"),
		tracker:  endpoints.NewEndpointSliceTracker(),
		times:    endpoints.NewTriggerTimeTracker(),
		topology: topologycache.NewTopologyCache(),
	}
	if err := service.Index(m); err != nil {
		return err
	}
	if err := slices.Index(m); err != nil {
		return err
	}
	return controller.NewControllerManagedBy(m).Named("endpointslice-controller").
		For(&corev1.Service{}).
		Watches(&corev1.Pod{}, service.ByPod(r.client)).
		Watches(&discoveryv1.EndpointSlice{}, slices.Handler(name, r.tracker)).
		Watches(&corev1.Node{}, r.nodes()).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers,
			RateLimiter:             workqueue.MaxOf(workqueue.ExponentialBackoff[controller.Request](time.Second, 1000*time.Second), workqueue.Bucket[controller.Request](10, 100)),
		}).
		Complete(r)
}

// reconciler is the Reconciler of Services. Its state, which each of the fields guards by a lock of
// its own, saves work and writes; the slices are right without it.
type reconciler struct {
	client client.Client
	events record.EventRecorder

	tracker  *endpoints.EndpointSliceTracker // the generations of slices as they were written
	times    *endpoints.TriggerTimeTracker   // when pods and Services changed last
	topology *topologycache.TopologyCache    // the zones of nodes and endpoints

	first sync.Once // the first reconcile reads the nodes
	queue queue
}

// Reconcile implements controller.Reconciler.
func (r *reconciler) Reconcile(ctx context.Context, req controller.Request) (controller.Result, error) {
	r.first.Do(func() { r.readNodes(ctx) })
	if req == nodesChanged {
		r.readNodes(ctx)
		r.requeueOverloaded()
		return controller.Result{}, nil
	}
	var s corev1.Service
	if err := r.client.Get(ctx, req.NamespacedName, &s, client.UnsafeDisableDeepCopy); apierrors.IsNotFound(err) {
		r.times.DeleteService(req.Namespace, req.Name)
		r.tracker.DeleteService(req.Namespace, req.Name)
		return controller.Result{}, nil
	} else if err != nil {
		return controller.Result{}, err
	}
	if s.Spec.Type == corev1.ServiceTypeExternalName || s.Spec.Selector == nil {
		return controller.Result{}, nil // its slices, if it has any, are made by others
	}
	pods, err := service.Pods(ctx, r.client, &s)
	if err != nil {
		return controller.Result{}, err
	}
	existing, err := slices.Of(ctx, r.client, req.NamespacedName, name)
	if err != nil {
		return controller.Result{}, err
	}
	changed := r.times.ComputeEndpointLastChangeTriggerTime(s.Namespace, &s, pods)
	if err := r.slicer(ctx).Reconcile(logr.FromContextOrDiscard(ctx), &s, pods, existing, changed); err != nil {
		r.events.Eventf(&s, corev1.EventTypeWarning, "FailedToUpdateEndpointSlices",
			"Error updating Endpoint Slices for Service %s/%s: %v", s.Namespace, s.Name, err)
		return controller.Result{}, err
	}
	return controller.Result{}, nil
}

// slicer returns the library's reconciler, for one reconcile: it has no context of its own.
func (r *reconciler) slicer(ctx context.Context) *endpointslice.Reconciler {
	return endpointslice.NewReconciler(clientset{ctx: ctx, client: r.client}, nodes{ctx: ctx, client: r.client}, most, r.tracker, r.topology, r.events, name,
		endpointslice.WithPreferSameTrafficDistributionEnabled(true))
}
