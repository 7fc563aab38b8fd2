// Package tainteviction deletes the pods of nodes with taints of the effect NoExecute that the pods
// do not tolerate, or tolerate only for some time. In Kubernetes this controller was separated from
// that of the node lifecycle (KEP-3902).
//
// The time of a toleration starts when the controller sees both pod and taint, so it starts again
// when the controller restarts. A scheduled eviction keeps its time when taints or tolerations are
// added, unless one of them evicts the pod at once or makes the eviction unnecessary.
//
// The cost of a change of a node depends only on the number of its pods, and that of a change of a
// pod does not depend on the number of other pods. The package starts no goroutine.
package tainteviction

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/kapok-dev/kapok/cache"
	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controller"
	"github.com/kapok-dev/kapok/controller/handler"
	"github.com/kapok-dev/kapok/controllers/internal/pod"
	"github.com/kapok-dev/kapok/manager"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
)

const (
	name = "taint-eviction-controller"
	// workers is the number of pods that are evicted at once.
	workers = 8
	byNode  = "spec.nodeName"
	// maxSeconds is the longest time of a toleration: a time.Duration holds no more.
	maxSeconds = int64(math.MaxInt64 / time.Second)
)

// Add adds the controller to a manager.
func Add(m manager.Manager) error {
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
	r := &reconciler{client: m.GetClient(), metrics: metrics, events: m.GetEventRecorderFor(name), pods: map[types.NamespacedName]*eviction{}}
	return controller.NewControllerManagedBy(m).Named(name).
		Watches(&corev1.Pod{}, r.podEvents()).
		Watches(&corev1.Node{}, r.nodeEvents()).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(r)
}

// reconciler is the Reconciler of pods on nodes with taints.
type reconciler struct {
	client  client.Client
	events  record.EventRecorder
	metrics metrics

	mu   sync.Mutex
	pods map[types.NamespacedName]*eviction
}

// An eviction is a planned eviction of a pod. The worker that holds the key of the pod owns it,
// except for changed.
type eviction struct {
	changed bool // the pod or its node, since a worker has looked last; under reconciler.mu
	uid     types.UID
	at      time.Time // zero: none is planned
	begun   bool      // the event has been sent, and requests have failed
}

func (r *reconciler) podEvents() handler.Funcs {
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e handler.CreateEvent, q handler.Queue) {
			r.changed(ctx, e.Object.(*corev1.Pod), q)
		},
		UpdateFunc: func(ctx context.Context, e handler.UpdateEvent, q handler.Queue) {
			before, now := e.ObjectOld.(*corev1.Pod), e.ObjectNew.(*corev1.Pod)
			if before.UID != now.UID || before.Spec.NodeName != now.Spec.NodeName || !equality.Semantic.DeepEqual(before.Spec.Tolerations, now.Spec.Tolerations) {
				r.changed(ctx, now, q)
			}
		},
		DeleteFunc: func(_ context.Context, e handler.DeleteEvent, q handler.Queue) {
			if key := client.ObjectKeyFromObject(e.Object); r.plans(key) {
				r.add(key, q)
			}
		},
	}
}

// changed adds a request for a pod that concerns the controller.
func (r *reconciler) changed(ctx context.Context, p *corev1.Pod, q handler.Queue) {
	if p.Spec.NodeName == "" {
		return
	}
	key := client.ObjectKeyFromObject(p)
	if r.plans(key) {
		r.add(key, q)
		return
	}
	if taints, _ := r.taints(ctx, p.Spec.NodeName); len(taints) > 0 {
		r.add(key, q)
	}
}

func (r *reconciler) plans(key types.NamespacedName) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pods[key] != nil
}

func (r *reconciler) add(key types.NamespacedName, q handler.Queue) {
	r.mu.Lock()
	e := r.pods[key]
	if e == nil {
		e = &eviction{}
		r.pods[key] = e
	}
	e.changed = true
	r.mu.Unlock()
	q.Add(controller.Request{NamespacedName: key})
}

func (r *reconciler) nodeEvents() handler.Funcs {
	pods := func(ctx context.Context, node string, q handler.Queue) {
		var list corev1.PodList
		if err := r.client.List(ctx, &list, client.MatchingFields{byNode: node}, client.UnsafeDisableDeepCopy); err != nil {
			return // the cache has ended
		}
		for i := range list.Items {
			r.add(client.ObjectKeyFromObject(&list.Items[i]), q)
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e handler.CreateEvent, q handler.Queue) {
			if n := e.Object.(*corev1.Node); len(noExecute(n)) > 0 {
				pods(ctx, n.Name, q)
			}
		},
		UpdateFunc: func(ctx context.Context, e handler.UpdateEvent, q handler.Queue) {
			before, now := e.ObjectOld.(*corev1.Node), e.ObjectNew.(*corev1.Node)
			if !equality.Semantic.DeepEqual(noExecute(before), noExecute(now)) {
				pods(ctx, now.Name, q)
			}
		},
	}
}

// noExecute returns the taints of a node that evict pods.
func noExecute(n *corev1.Node) []corev1.Taint {
	var all []corev1.Taint
	for _, t := range n.Spec.Taints {
		if t.Effect == corev1.TaintEffectNoExecute {
			all = append(all, t)
		}
	}
	return all
}

// taints returns the taints of a node that evict pods, and whether the cache has the node.
func (r *reconciler) taints(ctx context.Context, node string) ([]corev1.Taint, bool) {
	var n corev1.Node
	if err := r.client.Get(ctx, client.ObjectKey{Name: node}, &n, client.UnsafeDisableDeepCopy); err != nil {
		return nil, false
	}
	return noExecute(&n), true
}

// Reconcile implements controller.Reconciler.
func (r *reconciler) Reconcile(ctx context.Context, req controller.Request) (controller.Result, error) {
	r.mu.Lock()
	e := r.pods[req.NamespacedName]
	changed := e != nil && e.changed
	if changed {
		e.changed = false
	}
	r.mu.Unlock()
	if e == nil {
		return controller.Result{}, nil // the timer of an eviction that is no longer planned
	}
	var p corev1.Pod
	if err := r.client.Get(ctx, req.NamespacedName, &p, client.UnsafeDisableDeepCopy); client.IgnoreNotFound(err) != nil {
		return controller.Result{}, err
	}
	if p.UID != e.uid {
		r.cancel(req.NamespacedName, e)
		e.uid, changed = p.UID, true
	}
	if p.UID != "" && changed {
		r.judge(ctx, &p, e)
	}
	if !e.at.IsZero() {
		if wait := time.Until(e.at); wait > 0 {
			return controller.Result{RequeueAfter: wait}, nil
		}
		if err := client.IgnoreNotFound(r.evict(ctx, &p, e)); err != nil {
			return controller.Result{}, err
		}
		e.at, e.begun = time.Time{}, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !e.changed {
		delete(r.pods, req.NamespacedName)
	}
	return controller.Result{}, nil
}

// judge plans the eviction of a pod, or cancels it.
func (r *reconciler) judge(ctx context.Context, p *corev1.Pod, e *eviction) {
	key := client.ObjectKeyFromObject(p)
	taints, known := r.taints(ctx, p.Spec.NodeName)
	if !known {
		return // the planned evictions of the pods of a deleted node remain
	}
	wait, tolerated := tolerates(p.Spec.Tolerations, taints)
	switch {
	case tolerated && wait < 0:
		r.cancel(key, e)
	case !tolerated:
		r.cancel(key, e)
		e.at = time.Now()
	case e.at.IsZero():
		e.at = time.Now().Add(wait)
	}
}

// cancel cancels the eviction of a pod, which may have gone.
func (r *reconciler) cancel(key types.NamespacedName, e *eviction) {
	if !e.at.IsZero() && !e.begun {
		r.events.Eventf(about(key), corev1.EventTypeNormal, "TaintManagerEviction", "Cancelling deletion of Pod %s", key)
	}
	e.at, e.begun = time.Time{}, false
}

// evict deletes a pod. It fails until the pod is being deleted, or has gone.
func (r *reconciler) evict(ctx context.Context, p *corev1.Pod, e *eviction) error {
	if !e.begun {
		key := client.ObjectKeyFromObject(p)
		r.events.Eventf(about(key), corev1.EventTypeNormal, "TaintManagerEviction", "Marking for deletion Pod %s", key)
		e.begun = true
	}
	next := p.DeepCopy()
	changed := pod.SetCondition(next, corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, ObservedGeneration: p.Generation,
		Reason: "DeletionByTaintManager", Message: "Taint manager: deleting due to NoExecute taint",
	})
	if changed {
		patch := client.StrategicMergeFrom(p, client.MergeFromWithOptimisticLock{}) // not of another pod of this name
		if err := r.client.Status().Patch(ctx, next, patch); err != nil {
			return err
		}
	}
	gone := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}}
	if err := r.client.Delete(ctx, gone, client.Preconditions{UID: &p.UID}); err != nil {
		return err
	}
	r.metrics.deletions.Inc()
	r.metrics.delay.Observe(time.Since(e.at).Seconds())
	return nil
}

// about is the object of an event. As in Kubernetes it has no uid.
func about(key types.NamespacedName) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: key.Namespace, Name: key.Name}
}

// tolerates reports whether tolerations tolerate all taints, and for how long; a negative
// duration has no end. For each taint the first toleration that matches counts.
func tolerates(tolerations []corev1.Toleration, taints []corev1.Taint) (wait time.Duration, ok bool) {
	wait = -1
	for i := range taints {
		t := slices.IndexFunc(tolerations, func(t corev1.Toleration) bool { return matches(t, &taints[i]) })
		if t < 0 {
			return 0, false
		}
		if seconds := tolerations[t].TolerationSeconds; seconds != nil {
			if s := time.Duration(min(max(0, *seconds), maxSeconds)) * time.Second; wait < 0 || s < wait {
				wait = s
			}
		}
	}
	return wait, true
}

// matches reports whether a toleration tolerates a taint. The operators Lt and Gt of Kubernetes
// 1.35 are off by default, and tolerate none.
func matches(t corev1.Toleration, taint *corev1.Taint) bool {
	if t.Effect != "" && t.Effect != taint.Effect || t.Key != "" && t.Key != taint.Key {
		return false
	}
	switch t.Operator {
	case "", corev1.TolerationOpEqual:
		return t.Value == taint.Value
	case corev1.TolerationOpExists:
		return true
	}
	return false
}
