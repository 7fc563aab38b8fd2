// Package deployment rolls out the pod templates of Deployments, as Kubernetes' controller of this
// name does: it maintains a ReplicaSet for each template, and moves replicas from the old ones to
// that of the current template.
//
// A reconcile reads the ReplicaSets, takes one step (rolling.go, recreate.go, scale.go), and writes
// the status (status.go). The events of its writes start the next step.
//
// The package starts no goroutine.
package deployment

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controller"
	"github.com/kapok-dev/kapok/controller/handler"
	"github.com/kapok-dev/kapok/controllers/internal/owned"
	"github.com/kapok-dev/kapok/manager"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/record"
)

const (
	name = "deployment-controller"
	// workers is the number of Deployments that are reconciled at once, as in
	// kube-controller-manager.
	workers = 5
)

var kind = appsv1.SchemeGroupVersion.WithKind("Deployment")

// Add adds the controller to a manager.
func Add(m manager.Manager) error {
	r := &reconciler{client: m.GetClient(), live: m.GetAPIReader(), events: m.GetEventRecorderFor(name)}
	if err := owned.Index(m, &appsv1.ReplicaSet{}); err != nil {
		return err
	}
	if err := owned.Index(m, &corev1.Pod{}); err != nil {
		return err
	}
	ofReplicaSets := owned.Events{Kind: kind.GroupKind(), Adopters: r.adopters}
	return controller.NewControllerManagedBy(m).Named(name).
		For(&appsv1.Deployment{}).
		Watches(&appsv1.ReplicaSet{}, ofReplicaSets.Handler()).
		Watches(&corev1.Pod{}, handler.Funcs{DeleteFunc: r.podDeleted}).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(r)
}

// reconciler implements controller.Reconciler. It has no state of its own.
type reconciler struct {
	client client.Client
	live   client.Reader // not from the cache
	events record.EventRecorder
}

// adopters returns the Deployments whose selector matches a ReplicaSet.
func (r *reconciler) adopters(ctx context.Context, orphan client.Object) (all []handler.Request) {
	var list appsv1.DeploymentList
	if err := r.client.List(ctx, &list, client.InNamespace(orphan.GetNamespace()), client.UnsafeDisableDeepCopy); err != nil {
		return nil // the cache has ended
	}
	for _, d := range owned.Pointers(list.Items) {
		selector, err := metav1.LabelSelectorAsSelector(d.Spec.Selector)
		if err == nil && !selector.Empty() && selector.Matches(labels.Set(orphan.GetLabels())) {
			all = append(all, handler.RequestFor(d))
		}
	}
	return all
}

// podDeleted requests the Deployment of a pod that has gone, if it waits for the end of old pods.
func (r *reconciler) podDeleted(ctx context.Context, event handler.DeleteEvent, q handler.Queue) {
	by := metav1.GetControllerOfNoCopy(event.Object)
	if by == nil || by.Kind != "ReplicaSet" {
		return
	}
	var rs appsv1.ReplicaSet
	key := client.ObjectKey{Namespace: event.Object.GetNamespace(), Name: by.Name}
	if err := r.client.Get(ctx, key, &rs, client.UnsafeDisableDeepCopy); err != nil || rs.UID != by.UID {
		return
	}
	if by = metav1.GetControllerOfNoCopy(&rs); by == nil || by.Kind != kind.Kind {
		return
	}
	var d appsv1.Deployment
	key.Name = by.Name
	if err := r.client.Get(ctx, key, &d, client.UnsafeDisableDeepCopy); err != nil || d.UID != by.UID {
		return
	}
	if d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
		q.Add(handler.RequestFor(&d))
	}
}

// Reconcile implements controller.Reconciler.
func (r *reconciler) Reconcile(ctx context.Context, req controller.Request) (controller.Result, error) {
	d := &appsv1.Deployment{}
	if err := r.client.Get(ctx, req.NamespacedName, d); err != nil {
		return controller.Result{}, client.IgnoreNotFound(err)
	}
	selector, err := metav1.LabelSelectorAsSelector(d.Spec.Selector)
	if err != nil {
		return controller.Result{}, controller.TerminalError(fmt.Errorf("the selector is invalid: %w", err))
	}
	if selector.Empty() {
		return controller.Result{}, r.selectsAll(ctx, d)
	}
	o, err := r.begin(ctx, d, selector)
	if err == nil {
		err = o.step(ctx)
	}
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return controller.Result{}, nil // nothing can be created any more
	case err != nil:
		// The Deployment or a ReplicaSet is gone: its event starts the next reconcile, if any.
		return controller.Result{}, client.IgnoreNotFound(err)
	}
	return controller.Result{RequeueAfter: o.untilDeadline(time.Now())}, nil
}

// selectsAll reports a Deployment that would take all pods of its namespace.
func (r *reconciler) selectsAll(ctx context.Context, d *appsv1.Deployment) error {
	r.events.Event(d, corev1.EventTypeWarning, "SelectingAll", "This deployment is selecting all pods. A non-empty selector is required.")
	if d.Status.ObservedGeneration >= d.Generation {
		return nil
	}
	d.Status.ObservedGeneration = d.Generation
	return r.client.Status().Update(ctx, d)
}

// A rollout is a Deployment in one reconcile. The ReplicaSets belong to the cache: they are
// replaced, not changed.
type rollout struct {
	*reconciler
	d       *appsv1.Deployment
	current *appsv1.ReplicaSet   // of the current template; nil if it does not exist
	old     []*appsv1.ReplicaSet // the others, the oldest first
}

// begin claims the ReplicaSets of a Deployment.
func (r *reconciler) begin(ctx context.Context, d *appsv1.Deployment, selector labels.Selector) (*rollout, error) {
	var mine, orphans appsv1.ReplicaSetList
	if err := owned.List(ctx, r.client, &mine, d.Namespace, d.UID); err != nil {
		return nil, err
	}
	if err := owned.ListOrphans(ctx, r.client, &orphans, d.Namespace); err != nil {
		return nil, err
	}
	claim := owned.Claim[*appsv1.ReplicaSet]{Client: r.client, Live: r.live, Owner: d, Kind: kind, Selector: selector}
	sets, err := claim.All(ctx, owned.Pointers(mine.Items, orphans.Items))
	if err != nil {
		return nil, err
	}
	slices.SortFunc(sets, byCreation)
	o := &rollout{reconciler: r, d: d}
	for _, rs := range sets {
		// In rare cases, after a rollback of Kubernetes itself, several have the template. The oldest
		// counts: replicas must not move to and fro.
		if o.current == nil && sameTemplate(&rs.Spec.Template, &d.Spec.Template) {
			o.current = rs
		} else {
			o.old = append(o.old, rs)
		}
	}
	return o, nil
}

// all returns the ReplicaSets, the current one last.
func (o *rollout) all() []*appsv1.ReplicaSet {
	if o.current == nil {
		return o.old
	}
	return append(slices.Clip(o.old), o.current)
}

// step takes the next step.
func (o *rollout) step(ctx context.Context) error {
	deleted := o.d.DeletionTimestamp != nil
	if !deleted {
		if err := o.notePause(ctx); err != nil {
			return err
		}
		if to := rollbackTo(o.d); to != nil && !o.d.Spec.Paused {
			return o.rollBack(ctx, *to)
		}
	}
	if err := o.updateCurrent(ctx); err != nil {
		return err
	}
	switch {
	case deleted:
		return o.writeStatus(ctx, o.status())
	case o.d.Spec.Paused || o.isResized():
		return o.resize(ctx)
	}
	switch o.d.Spec.Strategy.Type {
	case appsv1.RecreateDeploymentStrategyType:
		return o.recreate(ctx)
	case appsv1.RollingUpdateDeploymentStrategyType:
		return o.roll(ctx)
	}
	return controller.TerminalError(fmt.Errorf("unexpected deployment strategy type: %s", o.d.Spec.Strategy.Type))
}
