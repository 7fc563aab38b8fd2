package podgc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controller"
	"github.com/kapok-dev/kapok/controllers/internal/pod"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// reconciler is the Reconciler of all tasks. It has no state of its own but metrics.
type reconciler struct {
	client  client.Client
	live    client.Reader // not from the cache
	metrics metrics
	ended   int // the number of pods that may have ended; negative: any
}

// Reconcile implements controller.TypedReconciler.
func (r *reconciler) Reconcile(ctx context.Context, req request) (controller.Result, error) {
	var err error
	switch req.task {
	case orphans:
		err = r.orphans(ctx, req.Name)
	case terminating:
		err = r.terminating(ctx, req.Name)
	case unscheduled:
		err = r.unscheduled(ctx, req.NamespacedName)
	case ended:
		err = r.oldest(ctx)
	}
	return controller.Result{}, err
}

// knows reports whether the cache has a node.
func (r *reconciler) knows(ctx context.Context, node string) bool {
	return r.client.Get(ctx, client.ObjectKey{Name: node}, &corev1.Node{}, client.UnsafeDisableDeepCopy) == nil
}

// orphans deletes the pods of a node that does not exist. The server has the last word: the cache
// may not know a new node yet.
func (r *reconciler) orphans(ctx context.Context, node string) error {
	if r.knows(ctx, node) {
		return nil
	}
	if err := r.live.Get(ctx, client.ObjectKey{Name: node}, &corev1.Node{}); !apierrors.IsNotFound(err) {
		return err
	}
	pods, err := r.on(ctx, node)
	if err != nil {
		return err
	}
	return r.delete(ctx, orphans, pods, &corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByPodGC", Message: "PodGC: node no longer exists",
	})
}

// terminating deletes the pods of a node that is out of service, as far as they are being deleted.
func (r *reconciler) terminating(ctx context.Context, node string) error {
	var n corev1.Node
	if err := r.client.Get(ctx, client.ObjectKey{Name: node}, &n, client.UnsafeDisableDeepCopy); err != nil {
		return client.IgnoreNotFound(err)
	}
	if !outOfService(&n) {
		return nil
	}
	pods, err := r.on(ctx, node)
	if err != nil {
		return err
	}
	return r.delete(ctx, terminating, slices.DeleteFunc(pods, func(p *corev1.Pod) bool { return p.DeletionTimestamp == nil }), nil)
}

// unscheduled deletes a pod that is being deleted, and has no node that could end that.
func (r *reconciler) unscheduled(ctx context.Context, key client.ObjectKey) error {
	var p corev1.Pod
	if err := r.client.Get(ctx, key, &p, client.UnsafeDisableDeepCopy); err != nil {
		return client.IgnoreNotFound(err)
	}
	if p.DeletionTimestamp == nil || p.Spec.NodeName != "" {
		return nil
	}
	return r.delete(ctx, unscheduled, []*corev1.Pod{&p}, nil)
}

// oldest deletes the pods that have ended and are too many: first those that were evicted, then the
// oldest.
func (r *reconciler) oldest(ctx context.Context) error {
	pods, err := r.list(ctx, client.MatchingFields{byEnded: "true"})
	if err != nil || len(pods) <= r.ended {
		return err
	}
	evicted := func(p *corev1.Pod) int {
		if p.Status.Phase == corev1.PodFailed && p.Status.Reason == "Evicted" {
			return 0
		}
		return 1
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(evicted(a)-evicted(b), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return r.delete(ctx, ended, pods[:len(pods)-r.ended], nil)
}

func (r *reconciler) on(ctx context.Context, node string) ([]*corev1.Pod, error) {
	return r.list(ctx, client.MatchingFields{byNode: node})
}

// list returns pods, which belong to the cache.
func (r *reconciler) list(ctx context.Context, which client.MatchingFields) (pods []*corev1.Pod, err error) {
	var list corev1.PodList
	if err := r.client.List(ctx, &list, which, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	for i := range list.Items {
		pods = append(pods, &list.Items[i])
	}
	return pods, nil
}

// delete deletes pods at once, without a node. It goes on after an error; the error joins all of
// them.
func (r *reconciler) delete(ctx context.Context, t task, pods []*corev1.Pod, because *corev1.PodCondition) error {
	var errs []error
	for _, p := range pods {
		r.metrics.deleted.WithLabelValues(p.Namespace, reasons[t]).Inc()
		if err := client.IgnoreNotFound(r.deleteOne(ctx, p, because)); err != nil {
			r.metrics.failed.WithLabelValues(p.Namespace, reasons[t]).Inc()
			errs = append(errs, fmt.Errorf("pod %s/%s: %w", p.Namespace, p.Name, err))
		}
	}
	return errors.Join(errs...)
}

// deleteOne lets a pod fail before it deletes it: its controller must not count it as running if a
// finalizer keeps it.
func (r *reconciler) deleteOne(ctx context.Context, p *corev1.Pod, because *corev1.PodCondition) error {
	if !pod.Ended(p) {
		next := p.DeepCopy()
		next.Status.Phase, next.Status.ObservedGeneration = corev1.PodFailed, p.Generation
		if because != nil {
			c := *because
			c.ObservedGeneration = p.Generation
			pod.SetCondition(next, c)
		}
		patch := client.StrategicMergeFrom(p, client.MergeFromWithOptimisticLock{})
		if err := r.client.Status().Patch(ctx, next, patch); err != nil {
			return err
		}
	}
	gone := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}}
	return r.client.Delete(ctx, gone, client.GracePeriodSeconds(0), client.Preconditions{UID: &p.UID})
}
