// Package loadbalancer allocates addresses of a pool to Services of type LoadBalancer, in place of
// a cloud provider. Events, finalizer and status are those of Kubernetes' service controller with a
// cloud provider.
//
// An address is in use while it is in the status of a Service: the Services are the only state, and
// a restart loses nothing. One reconcile at a time allocates, and reads the addresses in use from
// the server. No process listens on the addresses.
//
// The package starts no goroutine.
package loadbalancer

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/kapok-dev/kapok/cache"
	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controller"
	"github.com/kapok-dev/kapok/controller/handler"
	"github.com/kapok-dev/kapok/manager"
	"github.com/kapok-dev/kapok/workqueue"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
)

// finalizer keeps a Service until its address is free.
const finalizer = "service.kubernetes.io/load-balancer-cleanup"

const (
	byState = "kapok.dev/load-balancer"
	pending = "pending" // the state of a Service that waits for an address
)

// Options configure the controller.
type Options struct {
	// Pool are the ranges of addresses. The first and the last address of an IPv4 range are not
	// used. Default: 192.0.2.0/24 and 2001:db8::/120, which are reserved for documentation.
	Pool []netip.Prefix
}

// DefaultPool returns the default of Options.Pool.
func DefaultPool() []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("2001:db8::/120")}
}

// Add adds the controller to a manager, with the default options.
func Add(m manager.Manager) error { return Options{}.Add(m) }

// Add adds the controller to a manager.
func (o Options) Add(m manager.Manager) error {
	r := &reconciler{client: m.GetClient(), live: m.GetAPIReader(), events: m.GetEventRecorderFor("service-controller"), pool: o.Pool}
	if r.pool == nil {
		r.pool = DefaultPool()
	}
	err := m.GetFieldIndexer().IndexField(context.Background(), &corev1.Service{}, byState, func(o client.Object) []string {
		if s := o.(*corev1.Service); wants(s) && len(s.Status.LoadBalancer.Ingress) == 0 {
			return []string{pending}
		}
		return nil
	})
	if err != nil && !errors.Is(err, cache.ErrIndexExists) {
		return err
	}
	return controller.NewControllerManagedBy(m).Named("service-lb-controller").
		Watches(&corev1.Service{}, handler.Funcs{
			CreateFunc: func(_ context.Context, e handler.CreateEvent, q handler.Queue) { add(e.Object, q) },
			UpdateFunc: func(ctx context.Context, e handler.UpdateEvent, q handler.Queue) {
				add(e.ObjectNew, q)
				if len(addressesOf(e.ObjectNew.(*corev1.Service))) < len(addressesOf(e.ObjectOld.(*corev1.Service))) {
					r.retry(ctx, q)
				}
			},
			DeleteFunc: func(ctx context.Context, e handler.DeleteEvent, q handler.Queue) {
				if len(addressesOf(e.Object.(*corev1.Service))) > 0 {
					r.retry(ctx, q)
				}
			},
		}).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: 1, // of two at once, both could take an address
			RateLimiter:             workqueue.ExponentialBackoff[controller.Request](5*time.Second, 300*time.Second),
		}).
		Complete(r)
}

func add(o client.Object, q handler.Queue) {
	if s := o.(*corev1.Service); wants(s) || needsCleanup(s) {
		q.Add(handler.RequestFor(o))
	}
}

// reconciler is the Reconciler of Services. It has no state of its own.
type reconciler struct {
	client client.Client
	live   client.Reader // not from the cache
	events record.EventRecorder
	pool   []netip.Prefix
}

// retry adds requests for the Services that wait for an address, because one has become free.
func (r *reconciler) retry(ctx context.Context, q handler.Queue) {
	var list corev1.ServiceList
	if err := r.client.List(ctx, &list, client.MatchingFields{byState: pending}, client.UnsafeDisableDeepCopy); err != nil {
		return // the cache has ended
	}
	for i := range list.Items {
		q.Add(handler.RequestFor(&list.Items[i]))
	}
}

// wants reports whether a Service is to have an address of the pool. One with a class has another
// implementation.
func wants(s *corev1.Service) bool {
	return s.Spec.Type == corev1.ServiceTypeLoadBalancer && s.Spec.LoadBalancerClass == nil
}

// needsCleanup reports whether a Service is to lose its address.
func needsCleanup(s *corev1.Service) bool {
	return slices.Contains(s.Finalizers, finalizer) && (s.DeletionTimestamp != nil || s.Spec.Type != corev1.ServiceTypeLoadBalancer)
}

// Reconcile implements controller.Reconciler.
func (r *reconciler) Reconcile(ctx context.Context, req controller.Request) (controller.Result, error) {
	var s corev1.Service
	if err := r.client.Get(ctx, req.NamespacedName, &s); err != nil {
		return controller.Result{}, client.IgnoreNotFound(err)
	}
	var err error
	switch {
	case needsCleanup(&s):
		err = r.cleanUp(ctx, &s)
	case wants(&s) && s.DeletionTimestamp == nil:
		err = r.ensure(ctx, &s)
	}
	if err = client.IgnoreNotFound(err); err != nil {
		r.events.Eventf(&s, corev1.EventTypeWarning, "SyncLoadBalancerFailed", "Error syncing load balancer: %v", err)
	}
	return controller.Result{}, err
}

// ensure gives a Service its addresses, if it does not have them.
func (r *reconciler) ensure(ctx context.Context, s *corev1.Service) error {
	has := addressesOf(s)
	protected := slices.Contains(s.Finalizers, finalizer)
	if protected && r.suit(s, has) {
		return nil
	}
	r.events.Event(s, corev1.EventTypeNormal, "EnsuringLoadBalancer", "Ensuring load balancer")
	if !protected {
		if err := r.patch(ctx, s, func() { s.Finalizers = append(s.Finalizers, finalizer) }); err != nil {
			return fmt.Errorf("failed to add load balancer cleanup finalizer: %w", err)
		}
	}
	addresses, err := r.allocate(ctx, s, has)
	if err != nil {
		return fmt.Errorf("failed to ensure load balancer: %w", err)
	}
	if !slices.Equal(addresses, has) {
		if err := r.patchStatus(ctx, s, addresses); err != nil {
			return err
		}
	}
	r.events.Event(s, corev1.EventTypeNormal, "EnsuredLoadBalancer", "Ensured load balancer")
	return nil
}

// cleanUp takes the addresses of a Service.
func (r *reconciler) cleanUp(ctx context.Context, s *corev1.Service) error {
	had := addressesOf(s)
	if len(had) > 0 {
		r.events.Event(s, corev1.EventTypeNormal, "DeletingLoadBalancer", "Deleting load balancer")
	}
	deleted := s.DeletionTimestamp != nil
	if len(had) > 0 && !deleted {
		if err := r.patchStatus(ctx, s, nil); err != nil {
			return err
		}
	}
	err := r.patch(ctx, s, func() {
		s.Finalizers = slices.DeleteFunc(s.Finalizers, func(f string) bool { return f == finalizer })
	})
	if err != nil {
		return fmt.Errorf("failed to remove load balancer cleanup finalizer: %w", err)
	}
	r.events.Event(s, corev1.EventTypeNormal, "DeletedLoadBalancer", "Deleted load balancer")
	return nil
}

// patch writes a change of a Service, unless the Service has changed in between.
func (r *reconciler) patch(ctx context.Context, s *corev1.Service, change func()) error {
	before := s.DeepCopy()
	change()
	return r.client.Patch(ctx, s, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

func (r *reconciler) patchStatus(ctx context.Context, s *corev1.Service, addresses []netip.Addr) error {
	before := s.DeepCopy()
	s.Status.LoadBalancer = corev1.LoadBalancerStatus{}
	for _, a := range addresses {
		s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: a.String()})
	}
	if err := r.client.Status().Patch(ctx, s, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("failed to update load balancer status: %w", err)
	}
	return nil
}
