package nodelifecycle

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controller"
	"github.com/kapok-dev/kapok/controllers/internal/pod"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// node looks at a node: its heartbeats, taints, labels and pods.
func (r *reconciler) node(ctx context.Context, name string) (controller.Result, error) {
	var n corev1.Node
	err := r.client.Get(ctx, client.ObjectKey{Name: name}, &n, client.UnsafeDisableDeepCopy)
	if client.IgnoreNotFound(err) != nil {
		return controller.Result{}, err
	}
	if known := r.nodes.known(name); known != "" && known != n.UID {
		uid, registered := r.nodes.forget(name)
		if registered {
			r.event(about(name, uid), "RemovingNode", "Node %s event: Removing Node %s from Controller", name, name)
		}
		r.queue.AddAfter(allZones, pause)
	}
	if err != nil {
		return controller.Result{}, nil
	}
	isNew, clear := r.nodes.register(&n)
	if isNew {
		r.event(about(name, n.UID), "RegisteredNode", "Node %s event: Registered Node %s in Controller", name, name)
	}
	deadline, err := r.heartbeat(ctx, &n)
	if err != nil {
		return controller.Result{}, err
	}
	var after time.Duration
	if ready := condition(&n, corev1.NodeReady); ready == nil || ready.Status != corev1.ConditionUnknown {
		if after = time.Until(deadline); after <= 0 {
			if err := r.lose(ctx, &n); err != nil {
				return controller.Result{}, err
			}
			after = 0
		}
	}
	if r.nodes.count(&n) {
		r.queue.AddAfter(allZones, pause)
	}
	if err := r.taint(ctx, &n, clear); err != nil {
		return controller.Result{}, err
	}
	if r.nodes.retries(name) {
		if ready := condition(&n, corev1.NodeReady); ready == nil || ready.Status == corev1.ConditionTrue {
			r.nodes.setRetry(name, false)
		} else if err := r.unready(ctx, name); err != nil {
			return controller.Result{}, err
		}
	}
	return controller.Result{RequeueAfter: after}, nil
}

// heartbeat notes what a node has posted, and returns the end of its grace period. At the end the
// server has the last word: the cache may not know the last Lease yet.
func (r *reconciler) heartbeat(ctx context.Context, n *corev1.Node) (deadline time.Time, err error) {
	deadline = r.nodes.posted(n)
	if !r.nodes.leased(n.Name) {
		if deadline, err = r.lease(ctx, r.client, n); err != nil {
			return deadline, err
		}
	}
	if ready := condition(n, corev1.NodeReady); time.Until(deadline) <= 0 && (ready == nil || ready.Status != corev1.ConditionUnknown) {
		return r.lease(ctx, r.live, n)
	}
	return deadline, nil
}

// lease notes the Lease of a node, and returns the end of its grace period.
func (r *reconciler) lease(ctx context.Context, from client.Reader, n *corev1.Node) (deadline time.Time, err error) {
	var l coordinationv1.Lease
	err = from.Get(ctx, client.ObjectKey{Namespace: corev1.NamespaceNodeLease, Name: n.Name}, &l)
	if err == nil {
		r.nodes.renewed(n.Name, l.Spec.RenewTime)
	} else if client.IgnoreNotFound(err) != nil {
		return deadline, fmt.Errorf("the lease of node %s: %w", n.Name, err)
	}
	return r.nodes.posted(n), nil
}

// kubelet are the conditions that a kubelet posts. NetworkUnavailable is another component's.
var kubelet = []corev1.NodeConditionType{corev1.NodeReady, corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure}

// lose lets the conditions of a node be unknown. n becomes the node that the server has then.
func (r *reconciler) lose(ctx context.Context, n *corev1.Node) error {
	was := condition(n, corev1.NodeReady)
	wasReady := was != nil && was.Status == corev1.ConditionTrue
	next := n.DeepCopy()
	now := metav1.Now()
	for _, of := range kubelet {
		c := condition(next, of)
		switch {
		case c == nil:
			next.Status.Conditions = append(next.Status.Conditions, corev1.NodeCondition{
				Type: of, Status: corev1.ConditionUnknown, Reason: "NodeStatusNeverUpdated", Message: "Kubelet never posted node status.",
				LastHeartbeatTime: n.CreationTimestamp, LastTransitionTime: now,
			})
		case c.Status != corev1.ConditionUnknown:
			c.Status, c.Reason, c.Message = corev1.ConditionUnknown, "NodeStatusUnknown", "Kubelet stopped posting node status."
			c.LastTransitionTime = now
		}
	}
	if err := r.client.Status().Update(ctx, next); err != nil {
		return err
	}
	*n = *next
	r.nodes.wrote(n.Name, condition(n, corev1.NodeReady))
	if wasReady {
		r.event(about(n.Name, n.UID), "NodeNotReady", "Node %s status is now: NodeNotReady", n.Name)
		r.nodes.setRetry(n.Name, true)
	}
	return nil
}

// unready marks the pods of a node that was lost.
func (r *reconciler) unready(ctx context.Context, node string) error {
	var list corev1.PodList
	if err := r.client.List(ctx, &list, client.MatchingFields{byNode: node}, client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	var errs []error
	for i := range list.Items {
		errs = append(errs, r.unreadyOne(ctx, &list.Items[i]))
	}
	err := errors.Join(errs...)
	if err == nil {
		r.nodes.setRetry(node, false)
	}
	return err
}

// unreadyOne sets the condition Ready of a pod to False, because its node is not available.
func (r *reconciler) unreadyOne(ctx context.Context, p *corev1.Pod) error {
	c := pod.Condition(p, corev1.PodReady)
	if c == nil || c.Status == corev1.ConditionFalse {
		return nil
	}
	next := p.DeepCopy()
	unready := *c
	unready.Status = corev1.ConditionFalse
	pod.SetCondition(next, unready)
	if err := r.client.Status().Update(ctx, next); err != nil {
		return client.IgnoreNotFound(err)
	}
	r.events.Event(p, corev1.EventTypeWarning, "NodeNotReady", "Node is not ready")
	return nil
}

// pod marks a pod that has come to a node that is not ready.
func (r *reconciler) pod(ctx context.Context, key types.NamespacedName) error {
	var p corev1.Pod
	if err := r.client.Get(ctx, key, &p, client.UnsafeDisableDeepCopy); err != nil {
		return client.IgnoreNotFound(err)
	}
	if ready := r.nodes.ready(p.Spec.NodeName); ready == "" || ready == corev1.ConditionTrue {
		return nil
	}
	return r.unreadyOne(ctx, &p)
}
