// Package nodelifecycle monitors the heartbeats of nodes, as Kubernetes' controller of this name
// does. A heartbeat is a renewed Lease in kube-node-lease, or a status whose condition Ready has a
// new lastHeartbeatTime.
//
//   - A node without heartbeats for a grace period gets the condition Ready=Unknown, and its pods
//     become unready.
//   - Taints of the effect NoSchedule follow the conditions and spec.unschedulable.
//   - A node that is not ready gets the taint not-ready or unreachable of the effect NoExecute,
//     because of which package tainteviction evicts its pods. Each zone has a rate at which nodes
//     get it: see Options. If no node of any zone is ready, the network of this controller is
//     probably broken rather than all nodes, and the taint is removed from all of them.
//   - The labels beta.kubernetes.io/os and arch follow those without beta.
//
// Kubernetes' controller checks all nodes every five seconds. This one checks a node when it
// changes, and when its grace period ends: a heartbeat costs the same with any number of nodes. It
// checks all nodes only when the last zone becomes lost, or the first one is available again.
//
// The state of heartbeats is in memory only. After a start every node has a whole grace period, and
// taints NoExecute are removed and added again at their rate.
//
// # Locks
//
// The package starts no goroutine. One lock guards the state of all nodes; it is not held during
// requests.
package nodelifecycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kapok-dev/kapok/cache"
	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controller"
	"github.com/kapok-dev/kapok/controller/handler"
	"github.com/kapok-dev/kapok/controllers/internal/pod"
	"github.com/kapok-dev/kapok/manager"
	"github.com/kapok-dev/kapok/workqueue"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
)

const (
	// workers is the number of requests that are handled at once.
	workers = 8
	byNode  = "spec.nodeName"
)

// Options configure the controller. The zero value is that of kube-controller-manager, whose flags
// have these names.
type Options struct {
	// NodeMonitorGracePeriod is the time without a heartbeat until a node is lost. Default 50 s.
	NodeMonitorGracePeriod time.Duration
	// NodeStartupGracePeriod is that time for a node that has not posted its condition Ready. Default
	// 60 s.
	NodeStartupGracePeriod time.Duration
	// NodeEvictionRate is the number of nodes in a second that get a taint NoExecute in a zone.
	// Negative: no node gets one. Default 0.1.
	NodeEvictionRate float64
	// SecondaryNodeEvictionRate is the rate of a zone in which too many nodes are not ready. In a zone
	// with at most LargeClusterSizeThreshold nodes it is zero. Negative: zero. Default 0.01.
	SecondaryNodeEvictionRate float64
	// LargeClusterSizeThreshold is the number of nodes of a zone up to which SecondaryNodeEvictionRate
	// is zero. Negative: none. Default 50.
	LargeClusterSizeThreshold int
	// UnhealthyZoneThreshold is the fraction of the nodes of a zone that are too many if they are not
	// ready. Two are never too many. Default 0.55.
	UnhealthyZoneThreshold float64
}

// Validate returns an error for a fraction above 1, and for negative times.
func (o Options) Validate() error {
	if o.UnhealthyZoneThreshold < 0 || o.UnhealthyZoneThreshold > 1 {
		return fmt.Errorf("the unhealthy zone threshold %v is not between 0 and 1", o.UnhealthyZoneThreshold)
	}
	if o.NodeMonitorGracePeriod < 0 || o.NodeStartupGracePeriod < 0 {
		return errors.New("a grace period of nodes is negative")
	}
	return nil
}

func (o Options) withDefaults() Options {
	o.NodeMonitorGracePeriod = cmp.Or(o.NodeMonitorGracePeriod, 50*time.Second)
	o.NodeStartupGracePeriod = cmp.Or(o.NodeStartupGracePeriod, time.Minute)
	o.NodeEvictionRate = cmp.Or(o.NodeEvictionRate, 0.1)
	o.SecondaryNodeEvictionRate = cmp.Or(o.SecondaryNodeEvictionRate, 0.01)
	o.LargeClusterSizeThreshold = cmp.Or(o.LargeClusterSizeThreshold, 50)
	o.UnhealthyZoneThreshold = cmp.Or(o.UnhealthyZoneThreshold, 0.55)
	return o
}

// Add adds the controller to a manager, with the default options.
func Add(m manager.Manager) error { return Options{}.Add(m) }

// Add adds the controller to a manager.
func (o Options) Add(m manager.Manager) error {
	if err := o.Validate(); err != nil {
		return err
	}
	err := m.GetFieldIndexer().IndexField(context.Background(), &corev1.Pod{}, byNode, func(o client.Object) []string {
		return []string{o.(*corev1.Pod).Spec.NodeName}
	})
	if err != nil && !errors.Is(err, cache.ErrIndexExists) {
		return err
	}
	metrics, err := newMetrics(m.GetMetricsRegistry())
	if err != nil {
		return err
	}
	r := &reconciler{
		client: m.GetClient(), live: m.GetAPIReader(), events: m.GetEventRecorderFor("node-controller"),
		options: o.withDefaults(),
	}
	r.nodes.init(r.options, metrics)
	return controller.TypedControllerManagedBy[request](m).Named("node-lifecycle-controller").
		WatchesRawSource(&r.queue).
		Watches(&corev1.Node{}, funcs{
			CreateFunc: func(_ context.Context, e handler.CreateEvent, q queue) { q.Add(nodeRequest(e.Object.GetName())) },
			UpdateFunc: func(_ context.Context, e handler.UpdateEvent, q queue) { q.Add(nodeRequest(e.ObjectNew.GetName())) },
			DeleteFunc: func(_ context.Context, e handler.DeleteEvent, q queue) { q.Add(nodeRequest(e.Object.GetName())) },
		}).
		Watches(&corev1.Pod{}, funcs{
			CreateFunc: func(_ context.Context, e handler.CreateEvent, q queue) { r.bound(nil, e.Object.(*corev1.Pod), q) },
			UpdateFunc: func(_ context.Context, e handler.UpdateEvent, q queue) {
				r.bound(e.ObjectOld.(*corev1.Pod), e.ObjectNew.(*corev1.Pod), q)
			},
		}).
		Watches(&coordinationv1.Lease{}, funcs{
			CreateFunc: func(_ context.Context, e handler.CreateEvent, _ queue) { r.renewed(e.Object) },
			UpdateFunc: func(_ context.Context, e handler.UpdateEvent, _ queue) { r.renewed(e.ObjectNew) },
		}).
		WithOptions(controller.TypedOptions[request]{MaxConcurrentReconciles: workers}).
		Complete(r)
}

// A request is a node, a pod that has come to a node, a zone whose nodes wait for taints, or all
// zones, whose rates may change.
type request struct {
	of task
	types.NamespacedName
}

type task int

const (
	ofNode task = iota
	ofPod
	ofZone
	ofZones
)

var allZones = request{of: ofZones}

func nodeRequest(name string) request {
	return request{ofNode, types.NamespacedName{Name: name}}
}

func zoneRequest(name string) request {
	return request{ofZone, types.NamespacedName{Name: name}}
}

type (
	queue = workqueue.TypedRateLimitingInterface[request]
	funcs = handler.TypedFuncs[client.Object, request]
)

// A handle is a source without events. It keeps the queue of its controller.
type handle struct{ queue }

// Start implements controller.TypedSource.
func (h *handle) Start(_ context.Context, q queue) error {
	h.queue = q
	return nil
}

// reconciler is the Reconciler of the controller.
type reconciler struct {
	client  client.Client
	live    client.Reader // not from the cache
	events  record.EventRecorder
	options Options
	queue   handle
	nodes   nodes
}

// Reconcile implements controller.TypedReconciler. A node that has changed in between is reconciled
// again: a new node often does.
func (r *reconciler) Reconcile(ctx context.Context, req request) (controller.Result, error) {
	result, err := r.reconcile(ctx, req)
	if apierrors.IsConflict(err) {
		return controller.Result{RequeueAfter: pause}, nil
	}
	return result, err
}

func (r *reconciler) reconcile(ctx context.Context, req request) (controller.Result, error) {
	if err := r.start(ctx); err != nil {
		return controller.Result{}, err
	}
	switch req.of {
	case ofPod:
		return controller.Result{}, r.pod(ctx, req.NamespacedName)
	case ofZone:
		return r.zone(ctx, req.Name)
	case ofZones:
		r.apply(r.nodes.judge())
		return controller.Result{}, nil
	}
	return r.node(ctx, req.Name)
}

// start counts the nodes that the cache has, once: the first one that is looked at must not be
// taken for all.
func (r *reconciler) start(ctx context.Context) error {
	if r.nodes.started.Load() {
		return nil
	}
	var list corev1.NodeList
	if err := r.client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	r.nodes.start(list.Items)
	return nil
}

// renewed notes a heartbeat. It needs no request: at the end of the grace period the node is looked
// at anyway.
func (r *reconciler) renewed(o client.Object) {
	if o.GetNamespace() == corev1.NamespaceNodeLease {
		r.nodes.renewed(o.GetName(), o.(*coordinationv1.Lease).Spec.RenewTime)
	}
}

// bound adds a request for a pod that has come to a node that is not ready. One that becomes ready
// there has a node that can tell so.
func (r *reconciler) bound(before, p *corev1.Pod, q queue) {
	node := p.Spec.NodeName
	if node == "" || before != nil && before.Spec.NodeName == node || !pod.Ready(p) {
		return
	}
	if ready := r.nodes.ready(node); ready != "" && ready != corev1.ConditionTrue {
		q.Add(request{ofPod, client.ObjectKeyFromObject(p)})
	}
}

func (r *reconciler) event(node *corev1.ObjectReference, reason, format string, args ...any) {
	r.events.Eventf(node, corev1.EventTypeNormal, reason, format, args...)
}

func about(name string, uid types.UID) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: name, UID: uid}
}
