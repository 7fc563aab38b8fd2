// Package volumeprotection delays the deletion of PersistentVolumeClaims, PersistentVolumes and
// VolumeAttributesClasses until they are no longer in use, as Kubernetes' three controllers do, by
// a finalizer for each kind, which the server adds to new objects. Kapok's server also removes the
// finalizers itself; these controllers work with any server.
//
// A claim is in use while a pod with a node uses it, a volume while it is bound, and a class while
// a claim or volume names it. The controller of claims also maintains the condition Unused of bound
// claims.
//
// The package starts no goroutine.
package volumeprotection

import (
	"context"
	"slices"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controller"
	"github.com/kapok-dev/kapok/controller/handler"
	"github.com/kapok-dev/kapok/controllers/internal/storage"
	"github.com/kapok-dev/kapok/manager"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The finalizers.
const (
	ofClaims  = "kubernetes.io/pvc-protection"
	ofVolumes = "kubernetes.io/pv-protection"
	ofClasses = "kubernetes.io/vac-protection"
)

const byAttributes = "kapok.dev/volumeAttributesClass"

// AddClaims adds the controller of claims to a manager.
func AddClaims(m manager.Manager) error {
	if err := storage.IndexPods(m); err != nil {
		return err
	}
	r := &claims{client: m.GetClient(), live: m.GetAPIReader()}
	return controller.NewControllerManagedBy(m).Named("persistentvolumeclaim-protection-controller").
		For(&corev1.PersistentVolumeClaim{}).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) (all []handler.Request) {
			for _, name := range storage.Claims(o.(*corev1.Pod)) {
				all = append(all, handler.Request{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: name}})
			}
			return all
		})).
		Complete(r)
}

// claims implements controller.Reconciler.
type claims struct {
	client client.Client
	live   client.Reader // not from the cache
}

// Reconcile implements controller.Reconciler.
func (r *claims) Reconcile(ctx context.Context, req controller.Request) (controller.Result, error) {
	c := &corev1.PersistentVolumeClaim{}
	if err := r.client.Get(ctx, req.NamespacedName, c, client.UnsafeDisableDeepCopy); err != nil {
		return controller.Result{}, client.IgnoreNotFound(err)
	}
	pods, err := storage.Pods(ctx, r.client, c)
	if err != nil {
		return controller.Result{}, err
	}
	if c.DeletionTimestamp == nil && c.Status.Phase == corev1.ClaimBound {
		used := slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return !storage.Ended(p) && has(p, c, true) })
		if next := withUnused(c, used); next != nil {
			if err := r.client.Status().Update(ctx, next); err != nil {
				return controller.Result{}, client.IgnoreNotFound(err)
			}
			c = next
		}
	}
	return controller.Result{}, protect(ctx, r.client, c, ofClaims, func() (bool, error) {
		if slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return holds(p, c) }) {
			return true, nil
		}
		var list corev1.PodList
		err := r.live.List(ctx, &list, client.InNamespace(c.Namespace))
		return slices.ContainsFunc(list.Items, func(p corev1.Pod) bool { return holds(&p, c) }), err
	})
}

// holds reports whether a pod prevents the deletion of a claim.
func holds(p *corev1.Pod, c *corev1.PersistentVolumeClaim) bool {
	shutDown := p.DeletionTimestamp != nil && p.DeletionGracePeriodSeconds != nil && *p.DeletionGracePeriodSeconds == 0
	return p.Spec.NodeName != "" && has(p, c, !shutDown)
}

// has reports whether a claim is among the volumes of a pod, of the ephemeral ones if these count.
func has(p *corev1.Pod, c *corev1.PersistentVolumeClaim, ephemeral bool) bool {
	return slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == c.Name ||
			ephemeral && v.Ephemeral != nil && p.Name+"-"+v.Name == c.Name && metav1.IsControlledBy(c, p)
	})
}

// withUnused returns a claim with the condition Unused, or nil if it has that.
func withUnused(c *corev1.PersistentVolumeClaim, used bool) *corev1.PersistentVolumeClaim {
	want := corev1.PersistentVolumeClaimCondition{
		Type: corev1.PersistentVolumeClaimUnused, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now(),
		Reason: "NoPodsUsingPVC", Message: "No pods are currently referencing this PVC",
	}
	if used {
		want.Status, want.Reason, want.Message = corev1.ConditionFalse, "PodUsingPVC", "A pod is currently referencing this PVC"
	}
	i := slices.IndexFunc(c.Status.Conditions, func(o corev1.PersistentVolumeClaimCondition) bool { return o.Type == want.Type })
	if i >= 0 && (c.Status.Conditions[i].Status == corev1.ConditionTrue) != used {
		return nil
	}
	next := c.DeepCopy()
	if i >= 0 {
		next.Status.Conditions[i] = want
	} else {
		next.Status.Conditions = append(next.Status.Conditions, want)
	}
	return next
}

// AddVolumes adds the controller of volumes to a manager.
func AddVolumes(m manager.Manager) error {
	c := m.GetClient()
	return controller.NewControllerManagedBy(m).Named("persistentvolume-protection-controller").
		For(&corev1.PersistentVolume{}).
		Complete(controller.Func(func(ctx context.Context, req controller.Request) (controller.Result, error) {
			v := &corev1.PersistentVolume{}
			if err := c.Get(ctx, req.NamespacedName, v, client.UnsafeDisableDeepCopy); err != nil {
				return controller.Result{}, client.IgnoreNotFound(err)
			}
			return controller.Result{}, protect(ctx, c, v, ofVolumes, func() (bool, error) { return v.Status.Phase == corev1.VolumeBound, nil })
		}))
}

// AddAttributesClasses adds the controller of VolumeAttributesClasses to a manager.
func AddAttributesClasses(m manager.Manager) error {
	if err := storage.Index(m, &corev1.PersistentVolumeClaim{}, byAttributes, attributesOfClaim); err != nil {
		return err
	}
	if err := storage.Index(m, &corev1.PersistentVolume{}, byAttributes, attributesOfVolume); err != nil {
		return err
	}
	c := m.GetClient()
	return controller.NewControllerManagedBy(m).Named("volumeattributesclass-protection-controller").
		For(&storagev1.VolumeAttributesClass{}).
		Watches(&corev1.PersistentVolumeClaim{}, left(attributesOfClaim)).
		Watches(&corev1.PersistentVolume{}, left(attributesOfVolume)).
		Complete(controller.Func(func(ctx context.Context, req controller.Request) (controller.Result, error) {
			class := &storagev1.VolumeAttributesClass{}
			if err := c.Get(ctx, req.NamespacedName, class, client.UnsafeDisableDeepCopy); err != nil {
				return controller.Result{}, client.IgnoreNotFound(err)
			}
			return controller.Result{}, protect(ctx, c, class, ofClasses, func() (bool, error) {
				var volumes corev1.PersistentVolumeList
				var claims corev1.PersistentVolumeClaimList
				for _, list := range []client.ObjectList{&volumes, &claims} {
					if err := c.List(ctx, list, client.MatchingFields{byAttributes: class.Name}, client.UnsafeDisableDeepCopy); err != nil {
						return false, err
					}
				}
				return len(volumes.Items)+len(claims.Items) > 0, nil
			})
		}))
}

// left returns a handler that requests the classes which an object no longer names.
func left[T client.Object](names func(T) []string) handler.EventHandler {
	add := func(q handler.Queue, before, after []string) {
		for _, name := range before {
			if !slices.Contains(after, name) {
				q.Add(handler.Request{NamespacedName: types.NamespacedName{Name: name}})
			}
		}
	}
	return handler.Funcs{
		UpdateFunc: func(_ context.Context, e handler.UpdateEvent, q handler.Queue) {
			add(q, names(e.ObjectOld.(T)), names(e.ObjectNew.(T)))
		},
		DeleteFunc: func(_ context.Context, e handler.DeleteEvent, q handler.Queue) { add(q, names(e.Object.(T)), nil) },
	}
}

func attributesOfClaim(c *corev1.PersistentVolumeClaim) (names []string) {
	for _, name := range []*string{c.Spec.VolumeAttributesClassName, c.Status.CurrentVolumeAttributesClassName} {
		if name != nil && *name != "" {
			names = append(names, *name)
		}
	}
	if s := c.Status.ModifyVolumeStatus; s != nil && s.TargetVolumeAttributesClassName != "" {
		names = append(names, s.TargetVolumeAttributesClassName)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func attributesOfVolume(v *corev1.PersistentVolume) []string {
	if name := v.Spec.VolumeAttributesClassName; name != nil && *name != "" {
		return []string{*name}
	}
	return nil
}

// protect adds a finalizer to an object, or removes it from one that is deleted and not in use.
func protect(ctx context.Context, c client.Client, o client.Object, finalizer string, used func() (bool, error)) error {
	i := slices.Index(o.GetFinalizers(), finalizer)
	next := o.DeepCopyObject().(client.Object)
	switch {
	case o.GetDeletionTimestamp() == nil && i < 0:
		next.SetFinalizers(append(next.GetFinalizers(), finalizer))
	case o.GetDeletionTimestamp() != nil && i >= 0:
		if is, err := used(); is || err != nil {
			return err
		}
		next.SetFinalizers(slices.Delete(next.GetFinalizers(), i, i+1))
	default:
		return nil
	}
	return client.IgnoreNotFound(c.Update(ctx, next))
}
