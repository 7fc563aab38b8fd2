// Package ephemeralvolume creates the PersistentVolumeClaims of pods with generic ephemeral
// volumes: a pod p with an ephemeral volume v has the claim p-v, which goes with the pod.
//
// A claim of that name that belongs to another owner is not changed: the pod gets an event, and is
// retried with backoff. A claim that is deleted while its pod exists is created again.
//
// The package starts no goroutine.
package ephemeralvolume

import (
	"context"
	"errors"
	"fmt"

	"github.com/kapok-dev/kapok/cache"
	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controller"
	"github.com/kapok-dev/kapok/controller/handler"
	"github.com/kapok-dev/kapok/manager"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/component-helpers/storage/ephemeral"
)

const (
	name = "ephemeral-volume-controller"
	// workers is the number of pods that are reconciled at once, as in kube-controller-manager.
	workers = 5
	// byClaim indexes pods by the claims of their ephemeral volumes.
	byClaim = "kapok.dev/ephemeral-claims"
)

// Add adds the controller to a manager.
func Add(m manager.Manager) error {
	r := &reconciler{client: m.GetClient(), events: m.GetEventRecorderFor("ephemeral_volume")}
	err := m.GetFieldIndexer().IndexField(context.Background(), &corev1.Pod{}, byClaim, func(o client.Object) []string {
		return claims(o.(*corev1.Pod))
	})
	if err != nil && !errors.Is(err, cache.ErrIndexExists) {
		return err
	}
	return controller.NewControllerManagedBy(m).Named(name).
		Watches(&corev1.Pod{}, handler.Funcs{CreateFunc: podCreated}). // the relevant fields of a pod are immutable
		Watches(&corev1.PersistentVolumeClaim{}, handler.Funcs{DeleteFunc: r.claimDeleted}).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(r)
}

// claims returns the names of the claims that a pod needs.
func claims(p *corev1.Pod) (names []string) {
	for i := range p.Spec.Volumes {
		if v := &p.Spec.Volumes[i]; v.Ephemeral != nil {
			names = append(names, ephemeral.VolumeClaimName(p, v))
		}
	}
	return names
}

func podCreated(_ context.Context, e handler.CreateEvent, q handler.Queue) {
	if p := e.Object.(*corev1.Pod); p.DeletionTimestamp == nil && len(claims(p)) > 0 {
		q.Add(handler.RequestFor(p))
	}
}

// reconciler implements controller.Reconciler. It has no state of its own.
type reconciler struct {
	client client.Client
	events record.EventRecorder
}

// claimDeleted adds the pods that need the claim.
func (r *reconciler) claimDeleted(ctx context.Context, e handler.DeleteEvent, q handler.Queue) {
	var pods corev1.PodList
	err := r.client.List(ctx, &pods, client.InNamespace(e.Object.GetNamespace()), client.MatchingFields{byClaim: e.Object.GetName()},
		client.UnsafeDisableDeepCopy)
	if err != nil {
		return // the cache has ended
	}
	for i := range pods.Items {
		q.Add(handler.RequestFor(&pods.Items[i]))
	}
}

// Reconcile creates the claims that a pod lacks. It stops at the first one that it cannot create.
func (r *reconciler) Reconcile(ctx context.Context, req controller.Request) (controller.Result, error) {
	var p corev1.Pod
	if err := r.client.Get(ctx, req.NamespacedName, &p, client.UnsafeDisableDeepCopy); err != nil {
		return controller.Result{}, client.IgnoreNotFound(err)
	}
	if p.DeletionTimestamp != nil {
		return controller.Result{}, nil
	}
	for i := range p.Spec.Volumes {
		v := &p.Spec.Volumes[i]
		if v.Ephemeral == nil {
			continue
		}
		if err := r.ensure(ctx, &p, v); err != nil {
			r.events.Eventf(&p, corev1.EventTypeWarning, "FailedBinding", "ephemeral volume %s: %v", v.Name, err)
			return controller.Result{}, fmt.Errorf("ephemeral volume %s: %w", v.Name, err)
		}
	}
	return controller.Result{}, nil
}

// ensure creates the claim of an ephemeral volume, if there is none. The claim of another owner is
// an error.
func (r *reconciler) ensure(ctx context.Context, p *corev1.Pod, v *corev1.Volume) error {
	key := client.ObjectKey{Namespace: p.Namespace, Name: ephemeral.VolumeClaimName(p, v)}
	var claim corev1.PersistentVolumeClaim
	switch err := r.client.Get(ctx, key, &claim, client.UnsafeDisableDeepCopy); {
	case err == nil:
		return ephemeral.VolumeIsForPod(p, &claim)
	case !apierrors.IsNotFound(err):
		return err
	}
	template := v.Ephemeral.VolumeClaimTemplate.DeepCopy()
	claim = corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: key.Namespace, Name: key.Name, Labels: template.Labels, Annotations: template.Annotations,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(p, corev1.SchemeGroupVersion.WithKind("Pod"))},
		},
		Spec: template.Spec,
	}
	if err := r.client.Create(ctx, &claim); err != nil {
		return fmt.Errorf("create PVC %s: %w", key.Name, err)
	}
	return nil
}
