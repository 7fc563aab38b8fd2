package disruption

import (
	"context"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controller"
	"github.com/kapok-dev/kapok/controller/predicate"
	"github.com/kapok-dev/kapok/controllers/internal/pod"
	"github.com/kapok-dev/kapok/manager"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// staleAfter is the time in which the deletion of a pod must follow its condition DisruptionTarget.
const staleAfter = 2 * time.Minute

// addStale adds the controller that resets the condition of pods that were not deleted.
func addStale(m manager.Manager) error {
	return controller.NewControllerManagedBy(m).Named("disruption-controller-pods").
		For(&corev1.Pod{}, controller.WithPredicates(predicate.NewPredicateFuncs(func(o client.Object) bool { return target(o.(*corev1.Pod)) != nil }))).
		Complete(resetter{m.GetClient()})
}

// target returns the condition DisruptionTarget of a pod that is not being deleted and has not
// ended. That of a kubelet stays: the deletion may take any time.
func target(p *corev1.Pod) *corev1.PodCondition {
	c := pod.Condition(p, corev1.DisruptionTarget)
	if p.DeletionTimestamp != nil || pod.Ended(p) || c == nil || c.Status != corev1.ConditionTrue || c.Reason == corev1.PodReasonTerminationByKubelet {
		return nil
	}
	return c
}

// resetter is the Reconciler of pods with the condition.
type resetter struct{ client client.Client }

// Reconcile implements controller.Reconciler.
func (r resetter) Reconcile(ctx context.Context, req controller.Request) (controller.Result, error) {
	var p corev1.Pod
	if err := r.client.Get(ctx, req.NamespacedName, &p, client.UnsafeDisableDeepCopy); err != nil {
		return controller.Result{}, client.IgnoreNotFound(err)
	}
	c := target(&p)
	if c == nil {
		return controller.Result{}, nil
	}
	if wait := time.Until(c.LastTransitionTime.Add(staleAfter)); wait > 0 {
		return controller.Result{RequeueAfter: wait}, nil
	}
	next := p.DeepCopy()
	*pod.Condition(next, corev1.DisruptionTarget) = corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionFalse, ObservedGeneration: p.Generation, LastTransitionTime: metav1.Now(),
	}
	return controller.Result{}, client.IgnoreNotFound(r.client.Status().Update(ctx, next))
}
