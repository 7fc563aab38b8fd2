// Package volumeexpand records events for claims that request more than the capacity of their
// volume, as Kubernetes' controller persistentvolume-expander does: the resizer of a CSI driver
// expands them. It sets the name of the driver if one has replaced a provisioner of Kubernetes. It
// does not expand FlexVolumes, which Kubernetes' controller lets nodes expand.
//
// The package starts no goroutine.
package volumeexpand

import (
	"context"
	"fmt"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controller"
	"github.com/kapok-dev/kapok/controller/handler"
	"github.com/kapok-dev/kapok/controllers/internal/storage"
	"github.com/kapok-dev/kapok/manager"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
)

const reason = "ExternalExpanding"

// workers is the number of claims that are reconciled at once, as in kube-controller-manager.
const workers = 10

// Add adds the controller to a manager.
func Add(m manager.Manager) error {
	r := &reconciler{client: m.GetClient(), events: m.GetEventRecorderFor("volume_expand")}
	return controller.TypedControllerManagedBy[handler.Request](m).Named("persistentvolume-expander-controller").
		Watches(&corev1.PersistentVolumeClaim{}, handler.Funcs{
			CreateFunc: func(_ context.Context, e handler.CreateEvent, q handler.Queue) { add(e.Object, q) },
			UpdateFunc: func(_ context.Context, e handler.UpdateEvent, q handler.Queue) {
				if grown(e.ObjectOld.(*corev1.PersistentVolumeClaim), e.ObjectNew.(*corev1.PersistentVolumeClaim)) {
					add(e.ObjectNew, q)
				}
			},
		}).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(r)
}

func add(o client.Object, q handler.Queue) {
	if o.(*corev1.PersistentVolumeClaim).Status.Phase == corev1.ClaimBound {
		q.Add(handler.RequestFor(o))
	}
}

// grown reports whether a claim asks for more than before, or has more.
func grown(before, after *corev1.PersistentVolumeClaim) bool {
	asked, has := before.Spec.Resources.Requests[corev1.ResourceStorage], before.Status.Capacity[corev1.ResourceStorage]
	return after.Spec.Resources.Requests.Storage().Cmp(asked) > 0 || after.Status.Capacity.Storage().Cmp(has) > 0
}

// reconciler implements controller.Reconciler.
type reconciler struct {
	client client.Client
	events record.EventRecorder
}

// Reconcile implements controller.Reconciler.
func (r *reconciler) Reconcile(ctx context.Context, req controller.Request) (controller.Result, error) {
	c := &corev1.PersistentVolumeClaim{}
	if err := r.client.Get(ctx, req.NamespacedName, c, client.UnsafeDisableDeepCopy); err != nil {
		return controller.Result{}, client.IgnoreNotFound(err)
	}
	v := &corev1.PersistentVolume{}
	if err := r.client.Get(ctx, types.NamespacedName{Name: c.Spec.VolumeName}, v, client.UnsafeDisableDeepCopy); err != nil {
		return controller.Result{}, client.IgnoreNotFound(err)
	}
	if v.Spec.ClaimRef == nil || v.Spec.ClaimRef.UID != c.UID {
		return controller.Result{}, nil // the claim has no volume
	}
	has := c.Status.Capacity[corev1.ResourceStorage]
	if c.Spec.Resources.Requests.Storage().Cmp(has) <= 0 && !metav1.HasAnnotation(v.ObjectMeta, storage.PreResizeCapacity) {
		return controller.Result{}, nil
	}
	plugin := storage.PluginOf(v)
	if plugin == "" {
		r.events.Event(c, corev1.EventTypeNormal, reason, "waiting for an external controller to expand this PVC")
		return controller.Result{}, nil
	}
	r.events.Eventf(c, corev1.EventTypeNormal, reason, "CSI migration enabled for %s; waiting for external resizer to expand the pvc", plugin)
	driver := storage.Driver(plugin)
	if c.Annotations[storage.Resizer] == driver {
		return controller.Result{}, nil
	}
	next := c.DeepCopy()
	metav1.SetMetaDataAnnotation(&next.ObjectMeta, storage.Resizer, driver)
	if err := r.client.Patch(ctx, next, client.MergeFrom(c)); err != nil {
		err = fmt.Errorf("error setting resizer annotation to pvc %s, with error %w", req.NamespacedName, err)
		r.events.Event(c, corev1.EventTypeWarning, reason, err.Error())
		return controller.Result{}, client.IgnoreNotFound(err)
	}
	return controller.Result{}, nil
}
