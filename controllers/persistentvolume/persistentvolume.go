// Package persistentvolume binds PersistentVolumeClaims to PersistentVolumes, as Kubernetes'
// controller of this name does: each claim to one volume, and each volume to one claim.
//
// A claim gets the smallest volume that fits, or waits for its provisioner or its first pod
// (claim.go). A volume whose claim was deleted is released and reclaimed (volume.go). Kubernetes
// checks all of them every 15 seconds; this controller checks claims and volumes with events, and
// those that they are bound to. An index by class and size (index.go) finds the volume for a claim,
// so that the cost does not depend on the number of volumes.
//
// Every write has the resourceVersion of the object that the decision was based on: if two claims
// get the same volume, the server rejects one of the writes. The package starts no goroutine, and
// has one worker, which owns the index.
package persistentvolume

import (
	"context"
	"errors"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controller"
	"github.com/kapok-dev/kapok/controller/handler"
	"github.com/kapok-dev/kapok/controllers/internal/storage"
	"github.com/kapok-dev/kapok/manager"
	"github.com/kapok-dev/kapok/workqueue"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
)

// Indices of the cache.
const (
	byVolume  = "spec.volumeName"        // claims by the name of their volume
	byPending = "kapok.dev/pendingClass" // claims without a volume by their class
	byClaim   = "kapok.dev/claimRef"     // volumes by NAMESPACE/NAME of their claim
	noClass   = "*"                      // of claims that name no class
)

// renewEvents is the time after which a claim without a volume is reconciled again: the event with
// the reason for that expires after an hour.
const renewEvents = 45 * time.Minute

// Add adds the controller to a manager.
func Add(m manager.Manager) error {
	r := &reconciler{client: m.GetClient(), live: m.GetAPIReader(), events: m.GetEventRecorderFor("persistentvolume-controller")}
	err := errors.Join(
		storage.IndexPods(m),
		storage.Index(m, &corev1.PersistentVolumeClaim{}, byVolume, func(c *corev1.PersistentVolumeClaim) []string { return one(c.Spec.VolumeName) }),
		storage.Index(m, &corev1.PersistentVolumeClaim{}, byPending, pendingClass),
		storage.Index(m, &corev1.PersistentVolume{}, byClaim, func(v *corev1.PersistentVolume) []string {
			if v.Spec.ClaimRef == nil {
				return nil
			}
			return []string{v.Spec.ClaimRef.Namespace + "/" + v.Spec.ClaimRef.Name}
		}),
	)
	if err != nil {
		return err
	}
	return controller.TypedControllerManagedBy[request](m).Named("persistentvolume-binder-controller").
		Watches(&corev1.PersistentVolume{}, each(func(_ context.Context, o client.Object, q queue) {
			q.Add(request{volume: true, NamespacedName: client.ObjectKeyFromObject(o)})
		})).
		Watches(&corev1.PersistentVolumeClaim{}, each(func(_ context.Context, o client.Object, q queue) {
			q.Add(request{NamespacedName: client.ObjectKeyFromObject(o)})
		})).
		Watches(&storagev1.StorageClass{}, each(r.addClass)).
		Watches(&corev1.Pod{}, funcs{CreateFunc: func(_ context.Context, e handler.CreateEvent, q queue) { addPod(e.Object.(*corev1.Pod), q) }}).
		WithOptions(controller.TypedOptions[request]{MaxConcurrentReconciles: 1}).
		Complete(r)
}

// A request is a claim or a volume.
type request struct {
	volume bool
	types.NamespacedName
}

type (
	queue = workqueue.TypedRateLimitingInterface[request]
	funcs = handler.TypedFuncs[client.Object, request]
)

// each returns a handler of all events.
func each(add func(context.Context, client.Object, queue)) funcs {
	return funcs{
		CreateFunc: func(ctx context.Context, e handler.CreateEvent, q queue) { add(ctx, e.Object, q) },
		UpdateFunc: func(ctx context.Context, e handler.UpdateEvent, q queue) { add(ctx, e.ObjectNew, q) },
		DeleteFunc: func(ctx context.Context, e handler.DeleteEvent, q queue) { add(ctx, e.Object, q) },
	}
}

// addClass adds the claims that wait for a volume of a class, and those that get a class by
// default.
func (r *reconciler) addClass(ctx context.Context, o client.Object, q queue) {
	classes := []string{o.GetName()}
	if isDefault(o) {
		classes = append(classes, noClass)
	}
	for _, class := range classes {
		claims, err := r.claims(ctx, byPending, class)
		if err != nil {
			return // the cache has ended
		}
		for _, c := range claims {
			q.Add(request{NamespacedName: client.ObjectKeyFromObject(c)})
		}
	}
}

// addPod adds the claims of a new pod: they may wait for it.
func addPod(p *corev1.Pod, q queue) {
	for _, name := range storage.Claims(p) {
		q.Add(request{NamespacedName: types.NamespacedName{Namespace: p.Namespace, Name: name}})
	}
}

func one(s string) []string {
	if s == "" {
		return nil
	}
	return []string{s}
}

func pendingClass(c *corev1.PersistentVolumeClaim) []string {
	switch {
	case c.Spec.VolumeName != "" || metav1.HasAnnotation(c.ObjectMeta, storage.BindCompleted):
		return nil
	case !storage.HasClass(c):
		return []string{noClass}
	}
	return []string{"=" + storage.ClassOf(c)}
}

func isDefault(o client.Object) bool {
	a := o.GetAnnotations()
	return a[storage.DefaultClass] == "true" || a[storage.BetaDefaultClass] == "true"
}

// reconciler implements controller.TypedReconciler.
type reconciler struct {
	client client.Client
	live   client.Reader // not from the cache
	events record.EventRecorder
	free   *index // nil before the first request
}

// Reconcile implements controller.TypedReconciler.
func (r *reconciler) Reconcile(ctx context.Context, req request) (controller.Result, error) {
	if err := r.fill(ctx); err != nil {
		return controller.Result{}, err
	}
	if req.volume {
		return controller.Result{}, r.reconcileVolume(ctx, req.Name)
	}
	return r.reconcileClaim(ctx, req.NamespacedName)
}

// fill makes the index.
func (r *reconciler) fill(ctx context.Context) error {
	if r.free != nil {
		return nil
	}
	var list corev1.PersistentVolumeList
	if err := r.client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	r.free = newIndex()
	for i := range list.Items {
		r.free.put(&list.Items[i])
	}
	return nil
}

// reconcileVolume acts for a volume and the claims that name it, or that may get it.
func (r *reconciler) reconcileVolume(ctx context.Context, name string) error {
	v, err := r.volume(ctx, name)
	switch {
	case apierrors.IsNotFound(err):
		r.free.remove(name)
	case err != nil:
		return err
	default:
		if err := r.syncVolume(ctx, v); err != nil {
			return err
		}
	}
	claims, err := r.claims(ctx, byVolume, name)
	if err != nil {
		return err
	}
	var errs []error
	for _, c := range claims {
		errs = append(errs, r.syncClaim(ctx, c))
	}
	return errors.Join(append(errs, r.offer(ctx, name))...)
}

// reconcileClaim acts for a claim and the volumes that have it as theirs.
func (r *reconciler) reconcileClaim(ctx context.Context, key types.NamespacedName) (result controller.Result, err error) {
	c := &corev1.PersistentVolumeClaim{}
	err = r.client.Get(ctx, key, c, client.UnsafeDisableDeepCopy)
	if client.IgnoreNotFound(err) != nil {
		return result, err
	}
	if err == nil {
		if err := r.syncClaim(ctx, c); err != nil {
			return result, err
		}
		if c.Spec.VolumeName == "" {
			result.RequeueAfter = renewEvents
		}
	}
	volumes, err := r.volumesOf(ctx, key)
	if err != nil {
		return controller.Result{}, err
	}
	var errs []error
	for _, v := range volumes {
		errs = append(errs, r.syncVolume(ctx, v))
	}
	if err := errors.Join(errs...); err != nil {
		return controller.Result{}, err
	}
	return result, nil
}

// volume returns a volume of the cache.
func (r *reconciler) volume(ctx context.Context, name string) (*corev1.PersistentVolume, error) {
	v := &corev1.PersistentVolume{}
	return v, r.client.Get(ctx, types.NamespacedName{Name: name}, v, client.UnsafeDisableDeepCopy)
}

// volumesOf returns the volumes that have a claim as theirs. They belong to the cache.
func (r *reconciler) volumesOf(ctx context.Context, claim types.NamespacedName) (all []*corev1.PersistentVolume, err error) {
	var list corev1.PersistentVolumeList
	err = r.client.List(ctx, &list, client.MatchingFields{byClaim: claim.String()}, client.UnsafeDisableDeepCopy)
	for i := range list.Items {
		all = append(all, &list.Items[i])
	}
	return all, err
}

// claims returns the claims of all namespaces with a value in an index. They belong to the cache.
func (r *reconciler) claims(ctx context.Context, index, value string) (all []*corev1.PersistentVolumeClaim, err error) {
	if index == byPending && value != noClass {
		value = "=" + value
	}
	var list corev1.PersistentVolumeClaimList
	err = r.client.List(ctx, &list, client.MatchingFields{index: value}, client.UnsafeDisableDeepCopy)
	for i := range list.Items {
		all = append(all, &list.Items[i])
	}
	return all, err
}
