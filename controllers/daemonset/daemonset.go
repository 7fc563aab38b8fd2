// Package daemonset runs a pod of each DaemonSet on every node that matches its template, as
// Kubernetes' controller of this name does.
//
// A reconcile finds the revision of the template (revision.go), compares the pods with the nodes
// (manage.go), takes the next step of an update (update.go, surge.go), and writes the status
// (status.go). The events of its writes start the next reconcile.
//
// A change of a node starts a reconcile of the DaemonSets for which the node starts or stops to
// match (nodes.go). DaemonSets whose node selector does not match the labels of the node cost
// nothing.
//
// It reads from the manager's cache, which waits for the manager's own writes. The package starts
// no goroutine that outlives a reconcile.
package daemonset

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controller"
	"github.com/kapok-dev/kapok/controller/handler"
	"github.com/kapok-dev/kapok/controllers/internal/owned"
	"github.com/kapok-dev/kapok/controllers/internal/pod"
	"github.com/kapok-dev/kapok/manager"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/record"
)

const (
	name = "daemonset-controller"
	// workers is the number of DaemonSets that are reconciled at once, as in
	// kube-controller-manager.
	workers = 2
	// burst is the maximum number of pods that a reconcile creates, and deletes.
	burst = 250
)

var kind = appsv1.SchemeGroupVersion.WithKind("DaemonSet")

// Add adds the controller to a manager.
func Add(m manager.Manager) error {
	r := &reconciler{client: m.GetClient(), live: m.GetAPIReader(), events: m.GetEventRecorderFor(name), failures: newBackoff()}
	for _, o := range []client.Object{&corev1.Pod{}, &appsv1.ControllerRevision{}} {
		if err := owned.Index(m, o); err != nil {
			return err
		}
	}
	if err := indexNodes(m); err != nil {
		return err
	}
	ofSets := owned.Events{Kind: kind.GroupKind(), Adopters: r.adopters}
	return controller.NewControllerManagedBy(m).Named(name).
		For(&appsv1.DaemonSet{}).
		Watches(&corev1.Pod{}, ofSets.Handler()).
		Watches(&appsv1.ControllerRevision{}, ofSets.Handler()).
		Watches(&corev1.Node{}, r.nodeEvents()).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(r)
}

// reconciler implements controller.Reconciler. Its only state is the backoff of failed pods.
type reconciler struct {
	client   client.Client
	live     client.Reader // not from the cache
	events   record.EventRecorder
	failures *backoff
}

// adopters returns the DaemonSets whose selector matches a pod or a revision.
func (r *reconciler) adopters(ctx context.Context, orphan client.Object) (all []handler.Request) {
	var list appsv1.DaemonSetList
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

// Reconcile implements controller.Reconciler.
func (r *reconciler) Reconcile(ctx context.Context, req controller.Request) (controller.Result, error) {
	set := &appsv1.DaemonSet{}
	if err := r.client.Get(ctx, req.NamespacedName, set, client.UnsafeDisableDeepCopy); err != nil {
		return controller.Result{}, client.IgnoreNotFound(err)
	}
	if set.DeletionTimestamp != nil { // its objects may already be deleted, and cannot be counted
		return controller.Result{}, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
	if err != nil {
		return controller.Result{}, controller.TerminalError(fmt.Errorf("the selector is invalid: %w", err))
	}
	var nodes corev1.NodeList
	if err := r.client.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return controller.Result{}, err
	}
	o := &round{reconciler: r, set: set, selector: selector, now: time.Now(), generation: templateGeneration(set)}
	o.place(owned.Pointers(nodes.Items))
	if err := o.findRevisions(ctx); err != nil {
		return controller.Result{}, err
	}
	if err := o.findPods(ctx); err != nil {
		return controller.Result{}, err
	}
	err = o.act(ctx)
	if err = errors.Join(err, o.writeStatus(ctx)); err != nil {
		return controller.Result{}, err
	}
	return controller.Result{RequeueAfter: o.wait}, nil
}

// A round is a DaemonSet in one reconcile. Set, nodes, pods and revisions belong to the cache: they
// are not changed.
type round struct {
	*reconciler
	set      *appsv1.DaemonSet
	selector labels.Selector
	now      time.Time
	wait     time.Duration // until something is to be done without an event; 0 if there is nothing

	nodes  []placed        // by name
	places map[string]fits // of the same nodes

	old        []*appsv1.ControllerRevision // all revisions but that of the template
	hash       string                       // of the revision of the template, in the labels of pods
	generation string                       // of the template, in the labels of older pods; or ""

	all  []*corev1.Pod            // all pods of the set
	pods map[string][]*corev1.Pod // by node, without those that only wait for their removal
}

// act creates and deletes pods. An update goes on when all nodes have their pods: the events of
// those that are created or deleted now start a reconcile.
func (o *round) act(ctx context.Context) error {
	create, remove := o.manage()
	if len(create) == 0 && len(remove) == 0 && o.set.Spec.UpdateStrategy.Type == appsv1.RollingUpdateDaemonSetStrategyType {
		var err error
		if create, remove, err = o.roll(); err != nil {
			return err
		}
	}
	if len(create) > 0 || len(remove) > 0 {
		err := o.sync(ctx, create, remove)
		if err = errors.Join(err, o.findPods(ctx)); err != nil {
			return err
		}
	}
	return o.truncate(ctx)
}

// findPods claims the pods of the set, and finds their nodes.
func (o *round) findPods(ctx context.Context) error {
	all, err := o.claimPods(ctx)
	if err != nil {
		return err
	}
	o.all, o.pods = all, map[string][]*corev1.Pod{}
	for _, p := range all {
		if pod.Ended(p) && p.DeletionTimestamp != nil {
			continue
		}
		if node, ok := nodeOf(p); ok {
			o.pods[node] = append(o.pods[node], p)
		}
	}
	return nil
}

func (o *round) claimPods(ctx context.Context) ([]*corev1.Pod, error) {
	var mine, orphans corev1.PodList
	if err := owned.List(ctx, o.client, &mine, o.set.Namespace, o.set.UID); err != nil {
		return nil, err
	}
	if err := owned.ListOrphans(ctx, o.client, &orphans, o.set.Namespace); err != nil {
		return nil, err
	}
	claim := owned.Claim[*corev1.Pod]{Client: o.client, Live: o.live, Owner: o.set, Kind: kind, Selector: o.selector}
	return claim.All(ctx, owned.Pointers(mine.Items, orphans.Items))
}

// waitFor shortens the time until the next reconcile.
func (o *round) waitFor(wait time.Duration) {
	if wait > 0 && (o.wait == 0 || wait < o.wait) {
		o.wait = wait
	}
}
