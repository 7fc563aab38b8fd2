// Package replicaset maintains the number of pods of ReplicaSets and ReplicationControllers, as
// Kubernetes' controllers of these names do.
//
// A reconcile claims the pods that the selector matches, creates or deletes the difference to
// spec.replicas, and writes the status. It reads from the manager's cache, which waits for the
// manager's own writes: no pod is created twice because the cache is stale.
//
// The package starts no goroutine that outlives a reconcile.
package replicaset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controller"
	"github.com/kapok-dev/kapok/controller/handler"
	"github.com/kapok-dev/kapok/controllers/internal/owned"
	"github.com/kapok-dev/kapok/controllers/internal/pod"
	"github.com/kapok-dev/kapok/manager"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/record"
)

const (
	// burst is the maximum number of pods that a reconcile creates or deletes.
	burst = 500
	// workers is the number of objects that are reconciled at once, as in kube-controller-manager.
	workers = 5
)

// Add adds the controller of ReplicaSets to a manager.
func Add(m manager.Manager) error { return add(m, "replicaset-controller", replicaSets) }

// AddReplicationController adds the controller of ReplicationControllers to a manager.
func AddReplicationController(m manager.Manager) error {
	return add(m, "replication-controller", replicationControllers)
}

func add(m manager.Manager, name string, k kind) error {
	r := &reconciler{kind: k, client: m.GetClient(), live: m.GetAPIReader(), events: m.GetEventRecorderFor(name)}
	if err := owned.Index(m, &corev1.Pod{}); err != nil {
		return err
	}
	if err := owned.Index(m, k.object()); err != nil {
		return err
	}
	events := owned.Events{Kind: k.gvk.GroupKind(), Adopters: r.adopters}
	return controller.NewControllerManagedBy(m).Named(name).
		For(k.object()).
		Watches(&corev1.Pod{}, events.Handler()).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(r)
}

// reconciler is the Reconciler of one of the two kinds. It has no state of its own.
type reconciler struct {
	kind   kind
	client client.Client
	live   client.Reader // not from the cache
	events record.EventRecorder
}

// adopters returns the sets whose selector matches a pod.
func (r *reconciler) adopters(ctx context.Context, orphan client.Object) (all []handler.Request) {
	sets, err := r.kind.list(ctx, r.client, orphan.GetNamespace())
	if err != nil {
		return nil // the cache has ended
	}
	for _, s := range sets {
		if s.selector.Matches(labels.Set(orphan.GetLabels())) {
			all = append(all, handler.RequestFor(s.object))
		}
	}
	return all
}

// Reconcile implements controller.Reconciler.
func (r *reconciler) Reconcile(ctx context.Context, req controller.Request) (controller.Result, error) {
	s, err := r.kind.get(ctx, r.client, req.NamespacedName)
	if err != nil {
		return controller.Result{}, client.IgnoreNotFound(err)
	}
	active, terminating, err := r.pods(ctx, s)
	if err != nil {
		return controller.Result{}, err
	}
	var failed error
	kept := active
	if s.object.GetDeletionTimestamp() == nil {
		kept, failed = r.scale(ctx, s, active)
	}
	now := time.Now()
	status, wait := s.next(kept, terminating, failed, now)
	if err := r.writeStatus(ctx, s, status); err != nil {
		return controller.Result{}, client.IgnoreNotFound(err) // the set is gone
	}
	return controller.Result{RequeueAfter: wait}, failed
}

// pods returns the active pods of a set, which it claims, and those that are terminating.
func (r *reconciler) pods(ctx context.Context, s *set) (active, terminating []*corev1.Pod, err error) {
	var mine, orphans corev1.PodList
	if err := owned.List(ctx, r.client, &mine, s.object.GetNamespace(), s.object.GetUID()); err != nil {
		return nil, nil, err
	}
	if err := owned.ListOrphans(ctx, r.client, &orphans, s.object.GetNamespace()); err != nil {
		return nil, nil, err
	}
	for _, p := range owned.Pointers(mine.Items, orphans.Items) {
		switch {
		case pod.Active(p):
			active = append(active, p)
		case pod.Terminating(p) && metav1.IsControlledBy(p, s.object) && s.selector.Matches(labels.Set(p.Labels)):
			terminating = append(terminating, p)
		}
	}
	claim := owned.Claim[*corev1.Pod]{Client: r.client, Live: r.live, Owner: s.object, Kind: r.kind.gvk, Selector: s.selector}
	active, err = claim.All(ctx, active)
	return active, terminating, err
}

// scale creates or deletes the pods by which a set differs from spec.replicas. It returns the
// active ones without those that it has deleted: a status that still counted them would let a
// Deployment take away more pods than it may. (Kubernetes counts them once more.)
func (r *reconciler) scale(ctx context.Context, s *set, active []*corev1.Pod) (kept []*corev1.Pod, err error) {
	switch diff := int(s.replicas) - len(active); {
	case diff > 0:
		return active, r.create(ctx, s, min(diff, burst))
	case diff < 0:
		related, err := r.related(ctx, s)
		if err != nil {
			return active, err
		}
		pod.SortForDeletion(active, related, time.Now())
		n := min(-diff, burst)
		left, err := r.delete(ctx, s, active[:n])
		return append(left, active[n:]...), err
	}
	return active, nil
}

// create creates n pods: one at first, and twice as many at once after each batch that succeeds. A
// set whose pods are refused, by a quota for example, causes few requests and events that way.
func (r *reconciler) create(ctx context.Context, s *set, n int) error {
	ref := *metav1.NewControllerRef(s.object, r.kind.gvk)
	return pod.SlowStart(n, func() error {
		p := pod.FromTemplate(s.template, s.object, ref)
		if len(p.Labels) == 0 {
			return errors.New("unable to create pods, no labels")
		}
		switch err := r.client.Create(ctx, p); {
		case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
			return nil // any further creation would fail, too, until the set itself is deleted
		case err != nil:
			r.events.Eventf(s.object, corev1.EventTypeWarning, "FailedCreate", "Error creating: %v", err)
			return err
		}
		r.events.Eventf(s.object, corev1.EventTypeNormal, "SuccessfulCreate", "Created pod: %v", p.Name)
		return nil
	})
}

// delete deletes pods, all at once. It returns those that could not be deleted, and the first
// error.
func (r *reconciler) delete(ctx context.Context, s *set, pods []*corev1.Pod) (left []*corev1.Pod, err error) {
	errs := make([]error, len(pods))
	var all sync.WaitGroup
	for i, p := range pods {
		all.Go(func() { errs[i] = r.deleteOne(ctx, s, p) })
	}
	all.Wait()
	for i, p := range pods {
		if errs[i] != nil {
			left = append(left, p)
		}
	}
	return left, cmp.Or(errs...)
}

func (r *reconciler) deleteOne(ctx context.Context, s *set, p *corev1.Pod) error {
	gone := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}}
	switch err := r.client.Delete(ctx, gone); {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		r.events.Eventf(s.object, corev1.EventTypeWarning, "FailedDelete", "Error deleting: %v", err)
		return fmt.Errorf("unable to delete pods: %w", err)
	}
	r.events.Eventf(s.object, corev1.EventTypeNormal, "SuccessfulDelete", "Deleted pod: %v", p.Name)
	return nil
}

// related returns the pods of all sets with the owner of a set, such as those of a Deployment. They
// include its own.
func (r *reconciler) related(ctx context.Context, s *set) (all []*corev1.Pod, err error) {
	owner := metav1.GetControllerOfNoCopy(s.object)
	if owner == nil {
		return nil, nil
	}
	sets, err := r.kind.ownedBy(ctx, r.client, s.object.GetNamespace(), owner.UID)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, other := range sets {
		var pods corev1.PodList
		if err := r.client.List(ctx, &pods, client.InNamespace(s.object.GetNamespace()),
			client.MatchingLabelsSelector{Selector: other.selector}, client.UnsafeDisableDeepCopy); err != nil {
			return nil, err
		}
		for _, p := range owned.Pointers(pods.Items) {
			if !seen[p.Name] {
				seen[p.Name] = true
				all = append(all, p)
			}
		}
	}
	return all, nil
}

// writeStatus writes a status that differs. After a conflict it tries once more, on the set as the
// server has it.
func (r *reconciler) writeStatus(ctx context.Context, s *set, status appsv1.ReplicaSetStatus) error {
	if s.hasStatus(status) {
		return nil
	}
	status.ObservedGeneration = s.object.GetGeneration()
	err := r.client.Status().Update(ctx, r.kind.withStatus(s.object, status))
	if !apierrors.IsConflict(err) {
		return err
	}
	live := r.kind.object()
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(s.object), live); err != nil {
		return err
	}
	return r.client.Status().Update(ctx, r.kind.withStatus(live, status))
}
