package devicetainteviction

import (
	"context"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controller"
	"github.com/kapok-dev/kapok/controllers/internal/pod"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// reconcilePod evicts a pod when its time has come.
func (r *reconciler) reconcilePod(ctx context.Context, req request) (controller.Result, error) {
	var p corev1.Pod
	if err := r.client.Get(ctx, req.NamespacedName, &p, client.UnsafeDisableDeepCopy); err != nil {
		return controller.Result{}, client.IgnoreNotFound(err)
	}
	if p.UID != req.uid || p.DeletionTimestamp != nil {
		r.forget(req)
		return controller.Result{}, nil
	}
	t, err := r.taints(ctx, nil)
	if err != nil {
		return controller.Result{}, err
	}
	e, err := t.ofPod(ctx, &p)
	if err != nil {
		return controller.Result{}, err
	}
	if e.at.IsZero() {
		if r.forget(req) {
			r.events.Event(reference(&p), corev1.EventTypeNormal, "DeviceTaintManagerEviction", "Cancelling deletion")
		}
		return controller.Result{}, nil
	}
	r.mu.Lock()
	r.pending[p.UID] = e.rules
	r.mu.Unlock()
	r.tellLater(e.rules)
	if wait := time.Until(e.at); wait > 0 {
		return controller.Result{RequeueAfter: wait}, nil
	}
	deleted, err := r.evict(ctx, req)
	if client.IgnoreNotFound(err) != nil {
		return controller.Result{}, err
	}
	r.forget(req)
	if deleted {
		r.mu.Lock()
		for _, because := range e.rules {
			r.evicted[because.uid]++
		}
		r.mu.Unlock()
	}
	r.tellLater(e.rules)
	return controller.Result{}, nil
}

// forget ends a pending eviction, and reports whether there was one.
func (r *reconciler) forget(req request) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, was := r.pending[req.uid]
	delete(r.pending, req.uid)
	return was
}

// tellLater updates the status of rules after its period: more pods may follow.
func (r *reconciler) tellLater(rules []rule) {
	for _, because := range rules {
		r.queue.AddAfter(because.request(), statusPeriod)
	}
}

func reference(p *corev1.Pod) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: p.Namespace, Name: p.Name, UID: p.UID}
}

// evict deletes a pod, and reports whether it has.
func (r *reconciler) evict(ctx context.Context, req request) (bool, error) {
	var p corev1.Pod
	if err := r.live.Get(ctx, req.NamespacedName, &p); err != nil {
		return false, err
	}
	if p.UID != req.uid || p.DeletionTimestamp != nil {
		return false, nil
	}
	r.events.Event(reference(&p), corev1.EventTypeNormal, "DeviceTaintManagerEviction", "Marking for deletion")
	next := p.DeepCopy()
	c := corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now(),
		Reason: "DeletionByDeviceTaintManager", Message: "Device Taint manager: deleting due to NoExecute taint",
	}
	if was := pod.Condition(next, c.Type); was == nil {
		next.Status.Conditions = append(next.Status.Conditions, c)
	} else {
		if was.Status == c.Status {
			c.LastTransitionTime = was.LastTransitionTime
		}
		*was = c
	}
	if err := r.client.Status().Patch(ctx, next, client.StrategicMergeFrom(&p)); err != nil {
		return false, err
	}
	gone := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}}
	return true, r.client.Delete(ctx, gone, client.Preconditions{UID: &p.UID})
}
