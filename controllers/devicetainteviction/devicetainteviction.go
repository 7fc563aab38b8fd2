// Package devicetainteviction deletes pods that use devices with a NoExecute taint that their
// claims do not tolerate. Taints are those of devices in ResourceSlices, and those of
// DeviceTaintRules.
//
// Pods and rules have requests of their own. That of a pod (evict.go) computes the time of the
// eviction from the claims reserved for the pod (taints.go), waits until then, and computes it
// again. That of a rule (status.go) updates the condition EvictionInProgress, at most every ten
// seconds.
//
// The pending evictions, and the number of pods that a rule has evicted, are in memory: a restart
// loses the number, and finds the evictions again. The package starts no goroutine.
package devicetainteviction

import (
	"context"
	"errors"
	"sync"

	"github.com/kapok-dev/kapok/cache"
	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controller"
	"github.com/kapok-dev/kapok/controller/handler"
	"github.com/kapok-dev/kapok/manager"
	"github.com/kapok-dev/kapok/workqueue"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
)

const (
	name = "device-taint-eviction-controller"
	// workers is the number of requests that are handled at once, as in kube-controller-manager.
	workers = 8

	byPool    = "kapok.dev/device-pool"    // ResourceSlices, and claims with devices of the pool
	allocated = "kapok.dev/has-allocation" // claims with devices
)

// Add adds the controller to a manager.
func Add(m manager.Manager) error {
	r := &reconciler{
		client: m.GetClient(), live: m.GetAPIReader(), events: m.GetEventRecorderFor(name),
		pending: map[types.UID][]rule{}, evicted: map[types.UID]int{},
	}
	indices := []struct {
		of     client.Object
		name   string
		values client.IndexerFunc
	}{
		{&resourcev1.ResourceSlice{}, byPool, func(o client.Object) []string { return []string{poolOf(o.(*resourcev1.ResourceSlice))} }},
		{&resourcev1.ResourceClaim{}, byPool, func(o client.Object) []string { return poolsOf(o.(*resourcev1.ResourceClaim)) }},
		{&resourcev1.ResourceClaim{}, allocated, func(o client.Object) []string {
			if o.(*resourcev1.ResourceClaim).Status.Allocation != nil {
				return []string{"true"}
			}
			return nil
		}},
	}
	for _, i := range indices {
		err := m.GetFieldIndexer().IndexField(context.Background(), i.of, i.name, i.values)
		if err != nil && !errors.Is(err, cache.ErrIndexExists) {
			return err
		}
	}
	return controller.TypedControllerManagedBy[request](m).Named(name).
		WatchesRawSource(controller.TypedSourceFunc[request](func(_ context.Context, q queue) error { r.queue = q; return nil })).
		Watches(&corev1.Pod{}, r.pods()).
		Watches(&resourcev1.ResourceClaim{}, funcs{
			CreateFunc: func(_ context.Context, e handler.CreateEvent, q queue) {
				addUsers(e.Object.(*resourcev1.ResourceClaim), q)
			},
			UpdateFunc: func(_ context.Context, e handler.UpdateEvent, q queue) {
				addUsers(e.ObjectOld.(*resourcev1.ResourceClaim), q)
				addUsers(e.ObjectNew.(*resourcev1.ResourceClaim), q)
			},
			DeleteFunc: func(_ context.Context, e handler.DeleteEvent, q queue) {
				addUsers(e.Object.(*resourcev1.ResourceClaim), q)
			},
		}).
		Watches(&resourcev1.ResourceSlice{}, funcs{
			CreateFunc: func(ctx context.Context, e handler.CreateEvent, q queue) { r.addPool(ctx, e.Object, q) },
			UpdateFunc: func(ctx context.Context, e handler.UpdateEvent, q queue) {
				r.addPool(ctx, e.ObjectOld, q)
				r.addPool(ctx, e.ObjectNew, q)
			},
			DeleteFunc: func(ctx context.Context, e handler.DeleteEvent, q queue) { r.addPool(ctx, e.Object, q) },
		}).
		Watches(&resourcev1.DeviceTaintRule{}, r.rules()).
		WithOptions(controller.TypedOptions[request]{MaxConcurrentReconciles: workers}).
		Complete(r)
}

// A request is a pod, or a rule, which has no namespace.
type request struct {
	isRule bool
	types.NamespacedName
	uid types.UID
}

// A rule is a DeviceTaintRule.
type rule struct {
	name string
	uid  types.UID
}

func (r rule) request() request {
	return request{isRule: true, NamespacedName: types.NamespacedName{Name: r.name}, uid: r.uid}
}

type (
	queue = workqueue.TypedRateLimitingInterface[request]
	funcs = handler.TypedFuncs[client.Object, request]
)

// reconciler is the Reconciler of pods and rules.
type reconciler struct {
	client client.Client
	live   client.Reader // not from the cache
	events record.EventRecorder
	queue  queue // set before the first request

	mu      sync.Mutex
	pending map[types.UID][]rule // the pods that will be evicted, and the rules that are reasons
	evicted map[types.UID]int    // the number of pods that have been evicted because of a rule
}

// Reconcile implements controller.TypedReconciler.
func (r *reconciler) Reconcile(ctx context.Context, req request) (controller.Result, error) {
	if req.isRule {
		return r.reconcileRule(ctx, req)
	}
	return r.reconcilePod(ctx, req)
}

func podRequest(p *corev1.Pod) request {
	return request{NamespacedName: client.ObjectKeyFromObject(p), uid: p.UID}
}

// pods returns the handler of events of pods with claims.
func (r *reconciler) pods() funcs {
	add := func(p *corev1.Pod, q queue) {
		if len(p.Spec.ResourceClaims) > 0 || p.Status.ExtendedResourceClaimStatus != nil {
			q.Add(podRequest(p))
		}
	}
	return funcs{
		CreateFunc: func(_ context.Context, e handler.CreateEvent, q queue) { add(e.Object.(*corev1.Pod), q) },
		UpdateFunc: func(_ context.Context, e handler.UpdateEvent, q queue) { add(e.ObjectNew.(*corev1.Pod), q) },
		DeleteFunc: func(_ context.Context, e handler.DeleteEvent, _ queue) {
			r.mu.Lock()
			defer r.mu.Unlock()
			delete(r.pending, e.Object.GetUID())
		},
	}
}

// addUsers adds the pods for which a claim is reserved.
func addUsers(c *resourcev1.ResourceClaim, q queue) {
	for _, by := range c.Status.ReservedFor {
		if by.APIGroup == "" && by.Resource == "pods" {
			q.Add(request{NamespacedName: types.NamespacedName{Namespace: c.Namespace, Name: by.Name}, uid: by.UID})
		}
	}
}

// addPool adds the pods that use devices of the pool of a slice.
func (r *reconciler) addPool(ctx context.Context, slice client.Object, q queue) {
	r.addClaims(ctx, q, client.MatchingFields{byPool: poolOf(slice.(*resourcev1.ResourceSlice))})
}

func (r *reconciler) addClaims(ctx context.Context, q queue, which client.MatchingFields) {
	var claims resourcev1.ResourceClaimList
	if err := r.client.List(ctx, &claims, which, client.UnsafeDisableDeepCopy); err != nil {
		return // the cache has ended
	}
	for i := range claims.Items {
		addUsers(&claims.Items[i], q)
	}
}

// rules returns the handler of events of rules. A rule may match any device, so all pods with
// devices are looked at.
func (r *reconciler) rules() funcs {
	add := func(ctx context.Context, o client.Object, q queue) {
		q.Add(rule{o.GetName(), o.GetUID()}.request())
		r.addClaims(ctx, q, client.MatchingFields{allocated: "true"})
	}
	return funcs{
		CreateFunc: func(ctx context.Context, e handler.CreateEvent, q queue) { add(ctx, e.Object, q) },
		UpdateFunc: func(ctx context.Context, e handler.UpdateEvent, q queue) {
			was, is := e.ObjectOld.(*resourcev1.DeviceTaintRule), e.ObjectNew.(*resourcev1.DeviceTaintRule)
			if was.UID != is.UID || !equality.Semantic.DeepEqual(&was.Spec, &is.Spec) {
				add(ctx, is, q)
			}
		},
		DeleteFunc: func(ctx context.Context, e handler.DeleteEvent, q queue) {
			r.mu.Lock()
			delete(r.evicted, e.Object.GetUID())
			r.mu.Unlock()
			r.addClaims(ctx, q, client.MatchingFields{allocated: "true"})
		},
	}
}
