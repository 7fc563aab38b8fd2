// Package nodettl annotates nodes with the time for which their kubelets may cache the secrets and
// config maps that they read: the more nodes there are, the longer. A kubelet that watches these
// objects does not need it.
//
// A node gets a new value when it changes, for example at a heartbeat; a change in the number of
// nodes alone causes no write. The limits for more and for fewer nodes differ, so that values do
// not alternate at a limit. The package starts no goroutine.
package nodettl

import (
	"context"
	"math"
	"strconv"
	"sync"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controller"
	"github.com/kapok-dev/kapok/controller/handler"
	"github.com/kapok-dev/kapok/manager"

	corev1 "k8s.io/api/core/v1"
)

// workers is the number of nodes that are written at once.
const workers = 5

// steps are the sizes of a cluster, and the seconds of each.
var steps = []struct{ least, most, seconds int }{
	{0, 100, 0},
	{90, 500, 15},
	{450, 1000, 30},
	{900, 2000, 60},
	{1800, math.MaxInt, 300},
}

// Add adds the controller to a manager.
func Add(m manager.Manager) error {
	r := &reconciler{client: m.GetClient(), nodes: map[string]struct{}{}}
	return controller.NewControllerManagedBy(m).Named("ttl-controller").
		Watches(&corev1.Node{}, handler.Funcs{
			CreateFunc: func(_ context.Context, e handler.CreateEvent, q handler.Queue) {
				r.count(e.Object.GetName(), true)
				q.Add(handler.RequestFor(e.Object))
			},
			UpdateFunc: func(_ context.Context, e handler.UpdateEvent, q handler.Queue) {
				q.Add(handler.RequestFor(e.ObjectNew))
			},
			DeleteFunc: func(_ context.Context, e handler.DeleteEvent, _ handler.Queue) { r.count(e.Object.GetName(), false) },
		}).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(r)
}

// reconciler is the Reconciler of nodes.
type reconciler struct {
	client client.Client

	mu    sync.Mutex
	nodes map[string]struct{}
	step  int
}

// count counts a node that has come or gone.
func (r *reconciler) count(node string, exists bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if exists {
		r.nodes[node] = struct{}{}
	} else {
		delete(r.nodes, node)
	}
	for len(r.nodes) > steps[r.step].most {
		r.step++
	}
	for len(r.nodes) < steps[r.step].least {
		r.step--
	}
}

func (r *reconciler) seconds() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return steps[r.step].seconds
}

// Reconcile implements controller.Reconciler.
func (r *reconciler) Reconcile(ctx context.Context, req controller.Request) (controller.Result, error) {
	var n corev1.Node
	if err := r.client.Get(ctx, req.NamespacedName, &n, client.UnsafeDisableDeepCopy); err != nil {
		return controller.Result{}, client.IgnoreNotFound(err)
	}
	want := r.seconds()
	if is, err := strconv.Atoi(n.Annotations[corev1.ObjectTTLAnnotationKey]); err == nil && is == want {
		return controller.Result{}, nil
	}
	next := n.DeepCopy()
	if next.Annotations == nil {
		next.Annotations = map[string]string{}
	}
	next.Annotations[corev1.ObjectTTLAnnotationKey] = strconv.Itoa(want)
	return controller.Result{}, client.IgnoreNotFound(r.client.Patch(ctx, next, client.StrategicMergeFrom(&n)))
}
