// Package podgc deletes pods that no node deletes: those of nodes that do not exist, terminating
// pods without a node, terminating pods of a node that is out of service, and the oldest finished
// pods if there are too many. Kubernetes' controller of this name checks all pods every 20 seconds;
// this one checks pods with events.
//
// The package starts no goroutine.
package podgc

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/kapok-dev/kapok/cache"
	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controller"
	"github.com/kapok-dev/kapok/controller/handler"
	"github.com/kapok-dev/kapok/controllers/internal/pod"
	"github.com/kapok-dev/kapok/manager"
	"github.com/kapok-dev/kapok/workqueue"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// pause is the time until a pod without a node is deleted, and between two looks at pods that
	// have ended: the period of Kubernetes' controller.
	pause = 20 * time.Second
	// quarantine is the time until the pods of a node that does not exist are deleted. The node may
	// come back meanwhile.
	quarantine = 40 * time.Second

	byNode  = "spec.nodeName"
	byEnded = "kapok.dev/ended"
)

// Options configure the controller. The zero value is that of kube-controller-manager.
type Options struct {
	// Ended is the number of pods that may have ended before the oldest of them are deleted. A
	// negative number is no limit. Default 12,500.
	Ended int
}

// Add adds the controller to a manager, with the default options.
func Add(m manager.Manager) error { return Options{}.Add(m) }

// Add adds the controller to a manager.
func (o Options) Add(m manager.Manager) error {
	metrics, err := newMetrics(m.GetMetricsRegistry())
	if err != nil {
		return err
	}
	r := &reconciler{client: m.GetClient(), live: m.GetAPIReader(), metrics: metrics, ended: o.Ended}
	if r.ended == 0 {
		r.ended = 12500
	}
	indices := map[string]func(*corev1.Pod) []string{
		byNode: func(p *corev1.Pod) []string { return []string{p.Spec.NodeName} },
		byEnded: func(p *corev1.Pod) []string {
			if pod.Ended(p) {
				return []string{"true"}
			}
			return nil
		},
	}
	for name, values := range indices {
		err := m.GetFieldIndexer().IndexField(context.Background(), &corev1.Pod{}, name, func(o client.Object) []string { return values(o.(*corev1.Pod)) })
		if err != nil && !errors.Is(err, cache.ErrIndexExists) {
			return err
		}
	}
	return controller.TypedControllerManagedBy[request](m).Named("pod-garbage-collector-controller").
		Watches(&corev1.Pod{}, r.pods()).
		Watches(&corev1.Node{}, nodes).
		Complete(r)
}

// A request is a task with a pod or a node.
type request struct {
	task task
	types.NamespacedName
}

type task int

const (
	orphans     task = iota // the pods of a node, if it does not exist
	terminating             // the pods of a node that are being deleted, if it is out of service
	unscheduled             // a pod that is being deleted without a node
	ended                   // all pods that have ended
)

type (
	queue = workqueue.TypedRateLimitingInterface[request]
	funcs = handler.TypedFuncs[client.Object, request]
)

func named(t task, name string) request {
	return request{task: t, NamespacedName: types.NamespacedName{Name: name}}
}

// pods returns the handler of events of pods.
func (r *reconciler) pods() handler.TypedEventHandler[client.Object, request] {
	add := func(ctx context.Context, p *corev1.Pod, q queue) {
		switch node := p.Spec.NodeName; {
		case node != "" && !r.knows(ctx, node):
			q.AddAfter(named(orphans, node), quarantine)
		case p.DeletionTimestamp != nil && node != "":
			q.Add(named(terminating, node))
		case p.DeletionTimestamp != nil:
			q.AddAfter(request{task: unscheduled, NamespacedName: client.ObjectKeyFromObject(p)}, time.Until(p.DeletionTimestamp.Add(pause)))
		}
		if pod.Ended(p) && r.ended > 0 {
			q.AddAfter(request{task: ended}, pause)
		}
	}
	return funcs{
		CreateFunc: func(ctx context.Context, e handler.CreateEvent, q queue) { add(ctx, e.Object.(*corev1.Pod), q) },
		UpdateFunc: func(ctx context.Context, e handler.UpdateEvent, q queue) { add(ctx, e.ObjectNew.(*corev1.Pod), q) },
	}
}

// nodes is the handler of events of nodes.
var nodes = funcs{
	CreateFunc: func(_ context.Context, e handler.CreateEvent, q queue) { addNode(e.Object.(*corev1.Node), q) },
	UpdateFunc: func(_ context.Context, e handler.UpdateEvent, q queue) { addNode(e.ObjectNew.(*corev1.Node), q) },
	DeleteFunc: func(_ context.Context, e handler.DeleteEvent, q queue) {
		q.AddAfter(named(orphans, e.Object.GetName()), quarantine)
	},
}

func addNode(n *corev1.Node, q queue) {
	if outOfService(n) {
		q.Add(named(terminating, n.Name))
	}
}

// outOfService reports whether a node is not ready, and an administrator says that it is off.
func outOfService(n *corev1.Node) bool {
	tainted := slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService })
	return tainted && !slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}
