package job

import (
	"context"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controller"
	"github.com/kapok-dev/kapok/controller/handler"
	"github.com/kapok-dev/kapok/controllers/internal/owned"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// orphans is the Reconciler of pods that no Job counts any more: it removes their finalizer.
type orphans struct{ client client.Client }

// Reconcile implements controller.Reconciler.
func (o *orphans) Reconcile(ctx context.Context, req controller.Request) (controller.Result, error) {
	var p corev1.Pod
	if err := o.client.Get(ctx, req.NamespacedName, &p, client.UnsafeDisableDeepCopy); err != nil {
		return controller.Result{}, client.IgnoreNotFound(err)
	}
	if !tracked(&p) {
		return controller.Result{}, nil
	}
	if counted, err := o.isCounted(ctx, &p); counted || err != nil {
		return controller.Result{}, err
	}
	return controller.Result{}, client.IgnoreNotFound(release(ctx, o.client, &p, false))
}

// isCounted reports whether a pod has a Job that counts it, or another controller.
func (o *orphans) isCounted(ctx context.Context, p *corev1.Pod) (bool, error) {
	by := metav1.GetControllerOfNoCopy(p)
	if by == nil {
		return false, nil
	}
	if by.Kind != gvk.Kind || by.APIVersion != gvk.GroupVersion().String() {
		return true, nil
	}
	var job batchv1.Job
	err := o.client.Get(ctx, types.NamespacedName{Namespace: p.Namespace, Name: by.Name}, &job, client.UnsafeDisableDeepCopy)
	if err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return job.UID == by.UID && (managedByOther(&job) || !finished(&job)), nil
}

// podEvents adds pods that have lost their controller, or are being deleted.
func (o *orphans) podEvents() handler.EventHandler {
	add := func(p client.Object, q handler.Queue) {
		if tracked(p.(*corev1.Pod)) && (metav1.GetControllerOfNoCopy(p) == nil || p.GetDeletionTimestamp() != nil) {
			q.Add(handler.RequestFor(p))
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, event handler.CreateEvent, q handler.Queue) { add(event.Object, q) },
		UpdateFunc: func(_ context.Context, event handler.UpdateEvent, q handler.Queue) { add(event.ObjectNew, q) },
	}
}

// jobEvents adds the pods of Jobs that have been deleted or have finished.
func (o *orphans) jobEvents() handler.EventHandler {
	add := func(ctx context.Context, job client.Object, q handler.Queue) {
		var pods corev1.PodList
		if owned.List(ctx, o.client, &pods, job.GetNamespace(), job.GetUID()) != nil {
			return // the cache has ended
		}
		for i := range pods.Items {
			if tracked(&pods.Items[i]) {
				q.Add(handler.RequestFor(&pods.Items[i]))
			}
		}
	}
	return handler.Funcs{
		UpdateFunc: func(ctx context.Context, event handler.UpdateEvent, q handler.Queue) {
			if finished(event.ObjectNew.(*batchv1.Job)) {
				add(ctx, event.ObjectNew, q)
			}
		},
		DeleteFunc: func(ctx context.Context, event handler.DeleteEvent, q handler.Queue) { add(ctx, event.Object, q) },
	}
}
