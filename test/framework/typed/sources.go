package main

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

func differs[T client.Object, V comparable](of func(T) V) predicate.TypedPredicate[T] {
	return predicate.TypedFuncs[T]{UpdateFunc: func(e event.TypedUpdateEvent[T]) bool { return of(e.ObjectOld) != of(e.ObjectNew) }}
}

// nodes is a handler that implements the interface itself.
type nodes struct{ cluster string }

var _ handler.TypedEventHandler[*corev1.Node, Request] = nodes{}

func (n nodes) Create(_ context.Context, e event.TypedCreateEvent[*corev1.Node], q workqueue.TypedRateLimitingInterface[Request]) {
	q.Add(n.request(e.Object))
}

func (n nodes) Update(_ context.Context, e event.TypedUpdateEvent[*corev1.Node], q workqueue.TypedRateLimitingInterface[Request]) {
	if e.ObjectOld.Spec.Unschedulable != e.ObjectNew.Spec.Unschedulable {
		q.AddAfter(n.request(e.ObjectNew), time.Second)
	}
}

func (n nodes) Delete(_ context.Context, e event.TypedDeleteEvent[*corev1.Node], q workqueue.TypedRateLimitingInterface[Request]) {
	q.AddRateLimited(n.request(e.Object))
}

func (n nodes) Generic(context.Context, event.TypedGenericEvent[*corev1.Node], workqueue.TypedRateLimitingInterface[Request]) {
}

func (n nodes) request(node *corev1.Node) Request {
	return Request{n.cluster, types.NamespacedName{Name: node.Name}}
}

// ticks is a source that adds a request periodically.
func ticks(every time.Duration, r Request) source.TypedSource[Request] {
	return source.TypedFunc[Request](func(ctx context.Context, q workqueue.TypedRateLimitingInterface[Request]) error {
		go func() {
			for {
				select {
				case <-time.After(every):
					q.Add(r)
				case <-ctx.Done():
					return
				}
			}
		}()
		return nil
	})
}

// names is a source of events about names of clusters.
func names(from <-chan event.TypedGenericEvent[string]) source.TypedSource[Request] {
	return source.TypedChannel(from, handler.TypedFuncs[string, Request]{
		GenericFunc: func(_ context.Context, e event.TypedGenericEvent[string], q workqueue.TypedRateLimitingInterface[Request]) {
			q.Add(Request{Cluster: e.Object})
		},
	}, source.WithPredicates[string, Request](predicate.NewTypedPredicateFuncs(func(name string) bool { return name != "" })),
		source.WithBufferSize[string, Request](8))
}

func limiter() workqueue.TypedRateLimiter[Request] {
	return workqueue.NewTypedMaxOfRateLimiter(
		workqueue.NewTypedItemExponentialFailureRateLimiter[Request](time.Second, time.Hour),
		workqueue.NewTypedItemFastSlowRateLimiter[Request](time.Second, time.Minute, 3))
}
