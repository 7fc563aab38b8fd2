// Package resourceclaim creates the ResourceClaims of pods from templates, and deallocates claims
// that are no longer used.
//
// There are two kinds of requests. That of a pod (pods.go) creates its claims, writes their names
// into its status, and reserves claims for a pod that runs without having been scheduled. That of a
// claim (claims.go) removes reservations of pods that are deleted or will not run again,
// deallocates the devices of an unused claim, and deletes the claim of a finished pod.
//
// Claims of PodGroups belong to a feature that is off by default in Kubernetes 1.37, and are
// ignored. The package starts no goroutine.
package resourceclaim

import (
	"context"
	"errors"
	"slices"

	"github.com/kapok-dev/kapok/cache"
	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controller"
	"github.com/kapok-dev/kapok/controller/handler"
	"github.com/kapok-dev/kapok/controllers/internal/owned"
	"github.com/kapok-dev/kapok/manager"
	"github.com/kapok-dev/kapok/workqueue"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
)

const (
	name = "resourceclaim-controller"
	// workers is the number of pods and claims that are reconciled at once, as in
	// kube-controller-manager.
	workers = 50

	byClaim    = "kapok.dev/resource-claims"          // pods by the claims that they use
	byTemplate = "kapok.dev/resource-claim-templates" // pods by the templates of their claims
)

// Add adds the controller to a manager.
func Add(m manager.Manager) error {
	r := &reconciler{client: m.GetClient(), live: m.GetAPIReader(), events: m.GetEventRecorderFor("resource_claim")}
	if err := owned.Index(m, &resourcev1.ResourceClaim{}); err != nil {
		return err
	}
	indices := map[string]func(*corev1.Pod) []string{byClaim: claimNames, byTemplate: templateNames}
	for index, values := range indices {
		err := m.GetFieldIndexer().IndexField(context.Background(), &corev1.Pod{}, index, func(o client.Object) []string { return values(o.(*corev1.Pod)) })
		if err != nil && !errors.Is(err, cache.ErrIndexExists) {
			return err
		}
	}
	return controller.TypedControllerManagedBy[request](m).Named(name).
		Watches(&corev1.Pod{}, funcs{
			CreateFunc: func(ctx context.Context, e handler.CreateEvent, q queue) {
				r.addPod(ctx, e.Object.(*corev1.Pod), false, q)
			},
			UpdateFunc: func(ctx context.Context, e handler.UpdateEvent, q queue) {
				r.addPod(ctx, e.ObjectNew.(*corev1.Pod), false, q)
			},
			DeleteFunc: func(ctx context.Context, e handler.DeleteEvent, q queue) {
				r.addPod(ctx, e.Object.(*corev1.Pod), true, q)
			},
		}).
		Watches(&resourcev1.ResourceClaim{}, funcs{
			CreateFunc: func(ctx context.Context, e handler.CreateEvent, q queue) { r.addClaim(ctx, e.Object, false, q) },
			UpdateFunc: func(ctx context.Context, e handler.UpdateEvent, q queue) { r.addClaim(ctx, e.ObjectNew, false, q) },
			DeleteFunc: func(ctx context.Context, e handler.DeleteEvent, q queue) { r.addClaim(ctx, e.Object, true, q) },
		}).
		Watches(&resourcev1.ResourceClaimTemplate{}, funcs{
			CreateFunc: func(ctx context.Context, e handler.CreateEvent, q queue) { r.addPods(ctx, e.Object, byTemplate, q) },
			UpdateFunc: func(ctx context.Context, e handler.UpdateEvent, q queue) { r.addPods(ctx, e.ObjectNew, byTemplate, q) },
		}).
		WithOptions(controller.TypedOptions[request]{MaxConcurrentReconciles: workers}).
		Complete(r)
}

// A request is a pod or a claim.
type request struct {
	claim bool
	types.NamespacedName
}

type (
	queue = workqueue.TypedRateLimitingInterface[request]
	funcs = handler.TypedFuncs[client.Object, request]
)

// reconciler is the Reconciler of pods and claims. It has no state of its own.
type reconciler struct {
	client client.Client
	live   client.Reader // not from the cache
	events record.EventRecorder
}

// Reconcile implements controller.TypedReconciler.
func (r *reconciler) Reconcile(ctx context.Context, req request) (controller.Result, error) {
	if req.claim {
		return controller.Result{}, r.reconcileClaim(ctx, req.NamespacedName)
	}
	return controller.Result{}, r.reconcilePod(ctx, req.NamespacedName)
}

// claimNames returns the names of the claims of a pod's spec that exist, as far as the pod says.
func claimNames(p *corev1.Pod) (names []string) {
	for i := range p.Spec.ResourceClaims {
		claim, _, err := resourceclaim.Name(p, &p.Spec.ResourceClaims[i])
		if err == nil && claim != nil && !slices.Contains(names, *claim) {
			names = append(names, *claim)
		}
	}
	return names
}

func templateNames(p *corev1.Pod) (names []string) {
	for _, c := range p.Spec.ResourceClaims {
		if t := c.ResourceClaimTemplateName; t != nil && !slices.Contains(names, *t) {
			names = append(names, *t)
		}
	}
	return names
}

// addPod adds a pod that needs work, and the claims of a pod that does not need them any more.
func (r *reconciler) addPod(ctx context.Context, p *corev1.Pod, gone bool, q queue) {
	if len(p.Spec.ResourceClaims) == 0 && p.Status.ExtendedResourceClaimStatus == nil {
		return
	}
	if gone || done(p) {
		for claim := range resourceclaim.PodClaims(p) {
			q.Add(request{claim: true, NamespacedName: types.NamespacedName{Namespace: p.Namespace, Name: claim}})
		}
	}
	if !gone && r.needsWork(ctx, p) {
		q.Add(request{NamespacedName: client.ObjectKeyFromObject(p)})
	}
}

// addClaim adds a claim, and the pods that use it.
func (r *reconciler) addClaim(ctx context.Context, claim client.Object, gone bool, q queue) {
	if !gone {
		q.Add(request{claim: true, NamespacedName: client.ObjectKeyFromObject(claim)})
	}
	r.addPods(ctx, claim, byClaim, q)
}

// addPods adds the pods that refer to an object, by an index.
func (r *reconciler) addPods(ctx context.Context, to client.Object, index string, q queue) {
	var pods corev1.PodList
	err := r.client.List(ctx, &pods, client.InNamespace(to.GetNamespace()), client.MatchingFields{index: to.GetName()}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return // the cache has ended
	}
	for i := range pods.Items {
		r.addPod(ctx, &pods.Items[i], false, q)
	}
}
