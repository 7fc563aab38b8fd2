// Package statefulset runs the pods of StatefulSets, each with a stable identity and storage, as
// Kubernetes' controller of this name does.
//
// A reconcile finds the revisions of the template (revision.go) and the pods (identity.go), takes
// the next steps (step.go, update.go), in order or in parallel, and writes the status (status.go).
// The events of its writes start the next reconcile.
//
// It reads from the manager's cache, which waits for the manager's own writes. The package starts
// no goroutine that outlives a reconcile.
package statefulset

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controller"
	"github.com/kapok-dev/kapok/controller/handler"
	"github.com/kapok-dev/kapok/controllers/internal/owned"
	"github.com/kapok-dev/kapok/manager"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
)

const (
	name = "statefulset-controller"
	// workers is the number of StatefulSets that are reconciled at once, as in
	// kube-controller-manager.
	workers = 5
)

var (
	kind    = appsv1.SchemeGroupVersion.WithKind("StatefulSet")
	podKind = corev1.SchemeGroupVersion.WithKind("Pod")
)

// Add adds the controller to a manager.
func Add(m manager.Manager) error {
	r := &reconciler{client: m.GetClient(), live: m.GetAPIReader(), events: m.GetEventRecorderFor(name)}
	for _, o := range []client.Object{&corev1.Pod{}, &appsv1.ControllerRevision{}} {
		if err := owned.Index(m, o); err != nil {
			return err
		}
	}
	ofPods := owned.Events{Kind: kind.GroupKind(), Adopters: r.adopters}
	return controller.NewControllerManagedBy(m).Named(name).
		For(&appsv1.StatefulSet{}).
		Watches(&corev1.Pod{}, ofPods.Handler()).
		Watches(&corev1.PersistentVolumeClaim{}, handler.Funcs{DeleteFunc: claimDeleted}).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(r)
}

// reconciler implements controller.Reconciler. It has no state of its own.
type reconciler struct {
	client client.Client
	live   client.Reader // not from the cache
	events record.EventRecorder
}

// adopters returns the StatefulSets whose selector matches a pod.
func (r *reconciler) adopters(ctx context.Context, orphan client.Object) (all []handler.Request) {
	var list appsv1.StatefulSetList
	if err := r.client.List(ctx, &list, client.InNamespace(orphan.GetNamespace()), client.UnsafeDisableDeepCopy); err != nil {
		return nil // the cache has ended
	}
	for _, set := range owned.Pointers(list.Items) {
		selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
		if err == nil && !selector.Empty() && selector.Matches(labels.Set(orphan.GetLabels())) {
			all = append(all, handler.RequestFor(set))
		}
	}
	return all
}

// claimDeleted requests the StatefulSet of a pod that was to take its claim along. The next pod of
// that name waits for the end of the claim.
func claimDeleted(_ context.Context, event handler.DeleteEvent, q handler.Queue) {
	for _, owner := range event.Object.GetOwnerReferences() {
		if owner.APIVersion != podKind.Version || owner.Kind != podKind.Kind {
			continue
		}
		if set, ordinal := parse(owner.Name); ordinal >= 0 {
			q.Add(handler.Request{NamespacedName: types.NamespacedName{Namespace: event.Object.GetNamespace(), Name: set}})
		}
	}
}

// Reconcile implements controller.Reconciler.
func (r *reconciler) Reconcile(ctx context.Context, req controller.Request) (controller.Result, error) {
	set := &appsv1.StatefulSet{}
	if err := r.client.Get(ctx, req.NamespacedName, set, client.UnsafeDisableDeepCopy); err != nil {
		return controller.Result{}, client.IgnoreNotFound(err)
	}
	selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
	if err != nil {
		return controller.Result{}, controller.TerminalError(fmt.Errorf("the selector is invalid: %w", err))
	}
	o := &round{reconciler: r, set: set, now: time.Now()}
	if o.revisions, err = r.revisions(ctx, set, selector); err != nil {
		return controller.Result{}, err
	}
	if o.pods, err = r.pods(ctx, set, selector); err != nil {
		return controller.Result{}, err
	}
	err = o.reconcile(ctx)
	if err = errors.Join(err, o.truncate(ctx)); err != nil {
		return controller.Result{}, err
	}
	return controller.Result{RequeueAfter: o.untilAvailable()}, nil
}

// pods claims the pods of a set: those that its selector matches, and that are named like its own.
func (r *reconciler) pods(ctx context.Context, set *appsv1.StatefulSet, selector labels.Selector) ([]*corev1.Pod, error) {
	var mine, orphans corev1.PodList
	if err := owned.List(ctx, r.client, &mine, set.Namespace, set.UID); err != nil {
		return nil, err
	}
	if err := owned.ListOrphans(ctx, r.client, &orphans, set.Namespace); err != nil {
		return nil, err
	}
	claim := owned.Claim[*corev1.Pod]{
		Client: r.client, Live: r.live, Owner: set, Kind: kind, Selector: selector,
		Accepts: func(p *corev1.Pod) bool {
			parent, _ := parse(p.Name)
			return parent == set.Name
		},
	}
	return claim.All(ctx, owned.Pointers(mine.Items, orphans.Items))
}

// A round is a StatefulSet in one reconcile. Set, pods and revisions belong to the cache: they are
// not changed.
type round struct {
	*reconciler
	set       *appsv1.StatefulSet
	revisions []*appsv1.ControllerRevision // sorted
	pods      []*corev1.Pod
	now       time.Time

	current, update *revision
	collisions      int32
	replicas        []*corev1.Pod // by ordinal; those that do not exist are as they are to be created
	condemned       []*corev1.Pod // beyond the ordinals of the set, the highest first
	status          appsv1.StatefulSetStatus
}

// reconcile takes the next steps towards the spec of the set, and writes the status.
func (o *round) reconcile(ctx context.Context) error {
	if err := o.findRevisions(ctx); err != nil {
		return err
	}
	if o.set.Spec.UpdateStrategy.Type == appsv1.RecreateStatefulSetStrategyType {
		err := fmt.Errorf("statefulset %s/%s uses Recreate strategy but feature gate StatefulSetRecreateStrategy is disabled", o.set.Namespace, o.set.Name)
		o.events.Event(o.set, corev1.EventTypeWarning, "UnknownStrategy", err.Error())
		return err
	}
	o.arrange()
	var err error
	if o.set.DeletionTimestamp == nil {
		err = o.step(ctx)
	}
	return errors.Join(err, o.writeStatus(ctx))
}
