// Package nodeipam allocates ranges of addresses for the pods of nodes, spec.podCIDRs: one of each
// range of the cluster.
//
// The nodes are the only state. At its start the controller lists them before it allocates a range,
// so that no two nodes have the same one, even after a restart. A range whose write failed stays
// reserved for its node, because the write may have succeeded; it is free again when the node is
// deleted. Nodes without a range get one as soon as one is free.
//
// # Locks
//
// The package starts no goroutine. One lock guards the ranges; it is not held during requests.
package nodeipam

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controller"
	"github.com/kapok-dev/kapok/controller/handler"
	"github.com/kapok-dev/kapok/manager"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
)

const (
	// workers is the number of nodes that are written at once.
	workers = 8
	// tries is the number of attempts to write a range before an event says that it has failed.
	tries = 3
	// widest is the difference of the mask sizes of an IPv6 range and its nodes, at most: Kubernetes
	// limits it.
	widest = 16
)

// Options configure the controller. Most fields have the names of kube-controller-manager's flags.
type Options struct {
	// ClusterCIDRs are the ranges of the cluster: one, or one of each family. Without any, the
	// controller does not run.
	ClusterCIDRs []netip.Prefix
	// NodeCIDRMaskSizeIPv4 and NodeCIDRMaskSizeIPv6 are the mask sizes of the ranges of nodes. Default
	// 24 and 64.
	NodeCIDRMaskSizeIPv4, NodeCIDRMaskSizeIPv6 int
	// ServiceCIDRs are ranges that no node gets, where they overlap with those of the cluster.
	ServiceCIDRs []netip.Prefix
}

// Validate returns an error for ranges that are invalid or too small, for a third one, and for two
// of a family.
func (o Options) Validate() error {
	if len(o.ClusterCIDRs) > 2 {
		return fmt.Errorf("%d ranges of the cluster: want one of each family at most", len(o.ClusterCIDRs))
	}
	for _, p := range append(o.ClusterCIDRs[:len(o.ClusterCIDRs):len(o.ClusterCIDRs)], o.ServiceCIDRs...) {
		if !p.IsValid() {
			return fmt.Errorf("a range of the cluster or of services is invalid: %v", p)
		}
	}
	if len(o.ClusterCIDRs) == 2 && o.ClusterCIDRs[0].Addr().Is4() == o.ClusterCIDRs[1].Addr().Is4() {
		return errors.New("two ranges of the cluster have the same family")
	}
	for _, p := range o.ClusterCIDRs {
		bits := o.bits(p)
		if bits < p.Bits() || bits > p.Addr().BitLen() {
			return fmt.Errorf("the range %v of the cluster has no ranges of mask size %d for nodes", p, bits)
		}
		if p.Addr().Is6() && bits-p.Bits() > widest {
			return fmt.Errorf("the mask size %d of nodes is more than %d above that of the range %v of the cluster", bits, widest, p)
		}
	}
	return nil
}

// bits returns the mask size of the ranges of nodes in a range of the cluster.
func (o Options) bits(p netip.Prefix) int {
	if p.Addr().Is4() {
		return cmp.Or(o.NodeCIDRMaskSizeIPv4, 24)
	}
	return cmp.Or(o.NodeCIDRMaskSizeIPv6, 64)
}

// Add adds the controller to a manager. Without ClusterCIDRs it does nothing.
func (o Options) Add(m manager.Manager) error {
	if err := o.Validate(); err != nil || len(o.ClusterCIDRs) == 0 {
		return err
	}
	r := &reconciler{
		client: m.GetClient(), live: m.GetAPIReader(), events: m.GetEventRecorderFor("cidrAllocator"),
		ranges: newAllocator(o),
	}
	return controller.NewControllerManagedBy(m).Named("node-ipam-controller").
		Watches(&corev1.Node{}, handler.Funcs{
			CreateFunc: func(_ context.Context, e handler.CreateEvent, q handler.Queue) { r.add(e.Object.(*corev1.Node), q) },
			UpdateFunc: func(_ context.Context, e handler.UpdateEvent, q handler.Queue) { r.add(e.ObjectNew.(*corev1.Node), q) },
			DeleteFunc: func(_ context.Context, e handler.DeleteEvent, q handler.Queue) { q.Add(handler.RequestFor(e.Object)) },
		}).
		WatchesRawSource(&r.queue).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(r)
}

// A handle is a source without events. It keeps the queue of its controller.
type handle struct{ handler.Queue }

// Start implements controller.Source.
func (h *handle) Start(_ context.Context, q handler.Queue) error {
	h.Queue = q
	return nil
}

// reconciler is the Reconciler of nodes.
type reconciler struct {
	client client.Client
	live   client.Reader // not from the cache
	events record.EventRecorder
	queue  handle
	ranges *allocator
}

// add notes the ranges of a node, or adds a request for one that has none.
func (r *reconciler) add(n *corev1.Node, q handler.Queue) {
	if len(n.Spec.PodCIDRs) > 0 {
		r.wake(r.ranges.occupy(n.Name, n.Spec.PodCIDRs))
		return
	}
	q.Add(handler.RequestFor(n))
}

// wake adds requests for nodes that have waited for a range.
func (r *reconciler) wake(nodes []string) {
	for _, name := range nodes {
		r.queue.Add(controller.Request{NamespacedName: client.ObjectKey{Name: name}})
	}
}

// Reconcile implements controller.Reconciler.
func (r *reconciler) Reconcile(ctx context.Context, req controller.Request) (controller.Result, error) {
	if err := r.start(ctx); err != nil {
		return controller.Result{}, err
	}
	var n corev1.Node
	switch err := r.client.Get(ctx, req.NamespacedName, &n, client.UnsafeDisableDeepCopy); {
	case client.IgnoreNotFound(err) != nil:
		return controller.Result{}, err
	case err != nil:
		r.wake(r.ranges.release(req.Name))
		return controller.Result{}, nil
	case len(n.Spec.PodCIDRs) > 0:
		r.wake(r.ranges.occupy(n.Name, n.Spec.PodCIDRs))
		return controller.Result{}, nil
	case n.DeletionTimestamp != nil:
		return controller.Result{}, nil
	}
	ranges, ok := r.ranges.allocate(n.Name)
	if !ok {
		r.event(&n, "CIDRNotAvailable")
		return controller.Result{}, nil // release wakes it
	}
	return controller.Result{}, client.IgnoreNotFound(r.write(ctx, &n, ranges))
}

// start notes the ranges that nodes have, once.
func (r *reconciler) start(ctx context.Context) error {
	r.ranges.startMu.Lock()
	defer r.ranges.startMu.Unlock()
	if r.ranges.started {
		return nil
	}
	var list corev1.NodeList
	if err := r.live.List(ctx, &list); err != nil {
		return err
	}
	for i := range list.Items {
		r.ranges.occupy(list.Items[i].Name, list.Items[i].Spec.PodCIDRs)
	}
	r.ranges.started = true
	return nil
}

// write sets the ranges of a node. The server rejects the write if the node has others by then.
func (r *reconciler) write(ctx context.Context, n *corev1.Node, ranges []string) (err error) {
	for range tries {
		next := n.DeepCopy()
		next.Spec.PodCIDR, next.Spec.PodCIDRs = ranges[0], ranges
		if err = r.client.Patch(ctx, next, client.StrategicMergeFrom(n)); client.IgnoreNotFound(err) == nil {
			return err
		}
	}
	r.event(n, "CIDRAssignmentFailed")
	return fmt.Errorf("write the ranges %v of node %s: %w", ranges, n.Name, err)
}

func (r *reconciler) event(n *corev1.Node, reason string) {
	about := &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: n.Name, UID: n.UID}
	r.events.Eventf(about, corev1.EventTypeNormal, reason, "Node %s status is now: %s", n.Name, reason)
}
