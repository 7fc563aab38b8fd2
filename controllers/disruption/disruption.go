// Package disruption maintains the status of PodDisruptionBudgets, by which the server allows or
// denies evictions, as Kubernetes' controller of this name does.
//
// The server counts an eviction in the status itself, with the pod in disruptedPods. A status that
// this package writes has the resourceVersion of the one that it has read, so that no such pod is
// lost and a budget is never exceeded. The package also resets the condition DisruptionTarget of
// pods whose deletion was announced and did not happen.
//
// The package starts no goroutine.
package disruption

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controller"
	"github.com/kapok-dev/kapok/controller/handler"
	"github.com/kapok-dev/kapok/controllers/internal/selected"
	"github.com/kapok-dev/kapok/manager"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/tools/record"
)

const (
	// component is the component of events.
	component = "controllermanager"
	// again is the time until a budget whose status could not be computed is looked at again, if
	// nothing happens before.
	again = time.Minute
	// workers is the number of budgets that are reconciled at once.
	workers = 5
)

// Add adds the controller to a manager.
func Add(m manager.Manager) error {
	d, err := discovery.NewDiscoveryClientForConfigAndClient(m.GetConfig(), m.GetHTTPClient())
	if err != nil {
		return err
	}
	r := &reconciler{
		client: m.GetClient(), events: m.GetEventRecorderFor(component),
		scales: scales{client: m.GetClient(), mapper: m.GetRESTMapper(), discovery: d},
	}
	if err := selected.IndexLabels(m, &corev1.Pod{}); err != nil {
		return err
	}
	err = selected.IndexSelectors(m, &policyv1.PodDisruptionBudget{}, func(o client.Object) labels.Selector {
		s, _ := metav1.LabelSelectorAsSelector(o.(*policyv1.PodDisruptionBudget).Spec.Selector)
		return s // nil if it is invalid
	})
	if err != nil {
		return err
	}
	err = controller.NewControllerManagedBy(m).Named("disruption-controller").
		For(&policyv1.PodDisruptionBudget{}).
		Watches(&corev1.Pod{}, handler.Funcs{
			CreateFunc: func(ctx context.Context, e handler.CreateEvent, q handler.Queue) { r.add(ctx, q, e.Object) },
			UpdateFunc: func(ctx context.Context, e handler.UpdateEvent, q handler.Queue) {
				r.add(ctx, q, e.ObjectNew)
				if !maps.Equal(e.ObjectOld.GetLabels(), e.ObjectNew.GetLabels()) {
					for _, b := range r.budgets(ctx, e.ObjectOld) {
						q.Add(handler.RequestFor(b))
					}
				}
			},
			DeleteFunc: func(ctx context.Context, e handler.DeleteEvent, q handler.Queue) { r.add(ctx, q, e.Object) },
		}).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(r)
	if err != nil {
		return err
	}
	return addStale(m)
}

// reconciler is the Reconciler of PodDisruptionBudgets. It has no state of its own.
type reconciler struct {
	client client.Client
	events record.EventRecorder
	scales scales
}

// add adds requests for the budgets of a pod. An eviction needs at most one.
func (r *reconciler) add(ctx context.Context, q handler.Queue, pod client.Object) {
	all := r.budgets(ctx, pod)
	if len(all) > 1 {
		r.events.Eventf(pod, corev1.EventTypeWarning, "MultiplePodDisruptionBudgets",
			"Pod %q/%q matches multiple PodDisruptionBudgets.  Chose %q arbitrarily.", pod.GetNamespace(), pod.GetName(), all[0].Name)
	}
	for _, b := range all {
		q.Add(handler.RequestFor(b))
	}
}

// budgets returns the budgets whose selector matches a pod.
func (r *reconciler) budgets(ctx context.Context, pod client.Object) (all []*policyv1.PodDisruptionBudget) {
	set := labels.Set(pod.GetLabels())
	// An error means that the cache has ended.
	_ = selected.Each(ctx, r.client, func() *policyv1.PodDisruptionBudgetList { return &policyv1.PodDisruptionBudgetList{} }, pod.GetNamespace(), set,
		func(list *policyv1.PodDisruptionBudgetList) {
			for i := range list.Items {
				b := &list.Items[i]
				if s, err := metav1.LabelSelectorAsSelector(b.Spec.Selector); err == nil && s.Matches(set) {
					all = append(all, b)
				}
			}
		})
	return all
}

// Reconcile implements controller.Reconciler.
func (r *reconciler) Reconcile(ctx context.Context, req controller.Request) (controller.Result, error) {
	var b policyv1.PodDisruptionBudget
	if err := r.client.Get(ctx, req.NamespacedName, &b, client.UnsafeDisableDeepCopy); err != nil {
		return controller.Result{}, client.IgnoreNotFound(err)
	}
	wait, err := r.sync(ctx, &b)
	if err == nil || apierrors.IsConflict(err) {
		return controller.Result{RequeueAfter: wait}, err
	}
	return controller.Result{RequeueAfter: again}, client.IgnoreNotFound(r.close(ctx, &b, err))
}

// sync writes the status of a budget. wait is the time until a pod counts as not disrupted, or 0.
func (r *reconciler) sync(ctx context.Context, b *policyv1.PodDisruptionBudget) (wait time.Duration, err error) {
	pods, err := r.pods(ctx, b)
	if err != nil {
		r.events.Eventf(b, corev1.EventTypeWarning, "NoPods", "Failed to get pods: %v", err)
		return 0, err
	}
	if len(pods) == 0 {
		r.events.Eventf(b, corev1.EventTypeNormal, "NoPods", "No matching pods found")
	}
	e, err := r.expect(ctx, b, pods)
	if err != nil {
		r.events.Eventf(b, corev1.EventTypeWarning, "CalculateExpectedPodCountFailed", "Failed to calculate the number of expected pods: %v", err)
		return 0, err
	}
	if e.unmanaged {
		r.events.Eventf(b, corev1.EventTypeWarning, "UnmanagedPods", "Pods selected by this PodDisruptionBudget (selector: %v) were found "+
			"to be unmanaged. As a result, the status of the PDB cannot be calculated correctly, which may result in undefined behavior. "+
			"To account for these pods please set \".spec.minAvailable\" field of the PDB to an integer value.", b.Spec.Selector)
	}
	now := time.Now()
	disrupted, late, wait := disruptedPods(b, pods, now)
	for _, p := range late {
		r.events.Eventf(p, corev1.EventTypeWarning, "NotDeleted", "Pod was expected by PDB %s/%s to be deleted but it wasn't", b.Namespace, b.Namespace)
	}
	next := withStatus(b, e, healthy(pods, disrupted), disrupted)
	if next == nil {
		return wait, nil
	}
	return wait, client.IgnoreNotFound(r.client.Status().Update(ctx, next))
}

// pods returns the pods of a budget. They belong to the cache.
func (r *reconciler) pods(ctx context.Context, b *policyv1.PodDisruptionBudget) (pods []*corev1.Pod, err error) {
	s, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
	if err != nil {
		return nil, err
	}
	var list corev1.PodList
	if err := selected.List(ctx, r.client, &list, b.Namespace, s); err != nil {
		return nil, err
	}
	for i := range list.Items {
		pods = append(pods, &list.Items[i])
	}
	return pods, nil
}

// close lets a budget allow no eviction, because its status cannot be computed.
func (r *reconciler) close(ctx context.Context, b *policyv1.PodDisruptionBudget, because error) error {
	next := b.DeepCopy()
	next.Status.DisruptionsAllowed = 0
	changed := meta.SetStatusCondition(&next.Status.Conditions, metav1.Condition{
		Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionFalse, Reason: policyv1.SyncFailedReason,
		Message: because.Error(), ObservedGeneration: next.Status.ObservedGeneration,
	})
	if !changed && b.Status.DisruptionsAllowed == 0 {
		return nil
	}
	if err := r.client.Status().Update(ctx, next); err != nil {
		return fmt.Errorf("allow no disruptions (%v): %w", because, err)
	}
	return nil
}
