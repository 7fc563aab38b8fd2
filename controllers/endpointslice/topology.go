package endpointslice

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/kapok-dev/kapok/controller"
	"github.com/kapok-dev/kapok/controller/handler"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// nodesChanged is a request that names no Service: the zones of nodes have changed. Many nodes that
// change at once are one request.
var nodesChanged = controller.Request{}

// A queue is that of the controller. Handlers of events receive it, from the first event on.
type queue struct {
	mu sync.Mutex
	q  handler.Queue
}

func (q *queue) set(to handler.Queue) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.q = to
}

func (q *queue) add(r controller.Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.q.Add(r)
}

// nodes returns the handler of events of nodes.
func (r *reconciler) nodes() handler.EventHandler {
	changed := func(q handler.Queue) {
		r.queue.set(q)
		q.Add(nodesChanged)
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, _ handler.CreateEvent, q handler.Queue) { changed(q) },
		DeleteFunc: func(_ context.Context, _ handler.DeleteEvent, q handler.Queue) { changed(q) },
		UpdateFunc: func(_ context.Context, e handler.UpdateEvent, q handler.Queue) {
			before, after := e.ObjectOld.(*corev1.Node), e.ObjectNew.(*corev1.Node)
			if ready(before) != ready(after) || before.Labels[corev1.LabelTopologyZone] != after.Labels[corev1.LabelTopologyZone] {
				changed(q)
			}
		},
	}
}

// readNodes tells the topology the present nodes.
func (r *reconciler) readNodes(ctx context.Context) {
	var list corev1.NodeList
	if err := r.client.List(ctx, &list); err != nil {
		return // the cache has ended
	}
	all := make([]*corev1.Node, len(list.Items))
	for i := range list.Items {
		all[i] = &list.Items[i]
	}
	r.topology.SetNodes(logr.FromContextOrDiscard(ctx), all)
}

// requeueOverloaded adds requests for the Services whose endpoints are no longer spread over the
// zones as their nodes are.
func (r *reconciler) requeueOverloaded() {
	for _, key := range r.topology.GetOverloadedServices() {
		namespace, name, _ := strings.Cut(key, "/")
		r.queue.add(controller.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}})
	}
}

func ready(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}
