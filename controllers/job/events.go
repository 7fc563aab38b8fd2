package job

import (
	"context"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controller/handler"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// jobEvents adds a Job at once when its spec changes, and with the next batch when its status does:
// most changes of the status are this controller's own.
func jobEvents() handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(_ context.Context, event handler.CreateEvent, q handler.Queue) {
			q.Add(handler.RequestFor(event.Object))
		},
		UpdateFunc: func(_ context.Context, event handler.UpdateEvent, q handler.Queue) {
			switch request := handler.RequestFor(event.ObjectNew); {
			case event.ObjectOld.GetGeneration() != event.ObjectNew.GetGeneration():
				q.Add(request)
			default:
				q.AddAfter(request, batchPeriod)
			}
		},
		DeleteFunc: func(_ context.Context, event handler.DeleteEvent, q handler.Queue) {
			q.Add(handler.RequestFor(event.Object))
		},
	}
}

// batched returns a handler that delays the requests of another one, so that a burst of events
// causes one pass.
func batched(h handler.EventHandler) handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, event handler.CreateEvent, q handler.Queue) { h.Create(ctx, event, batch{q}) },
		UpdateFunc: func(ctx context.Context, event handler.UpdateEvent, q handler.Queue) { h.Update(ctx, event, batch{q}) },
		DeleteFunc: func(ctx context.Context, event handler.DeleteEvent, q handler.Queue) { h.Delete(ctx, event, batch{q}) },
	}
}

// batch is a queue whose Add waits for the batch.
type batch struct{ handler.Queue }

func (b batch) Add(r handler.Request) { b.AddAfter(r, batchPeriod) }

// adopters returns the Jobs whose selector matches a pod.
func (r *reconciler) adopters(ctx context.Context, orphan client.Object) (all []handler.Request) {
	var jobs batchv1.JobList
	if err := r.client.List(ctx, &jobs, client.InNamespace(orphan.GetNamespace()), client.UnsafeDisableDeepCopy); err != nil {
		return nil // the cache has ended
	}
	for i := range jobs.Items {
		selector, err := metav1.LabelSelectorAsSelector(jobs.Items[i].Spec.Selector)
		if err == nil && selector.Matches(labels.Set(orphan.GetLabels())) {
			all = append(all, handler.RequestFor(&jobs.Items[i]))
		}
	}
	return all
}
