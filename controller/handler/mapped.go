package handler

import (
	"context"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/workqueue"
)

// A MapFunc is a TypedMapFunc of objects of any kind, with requests that name an object.
type MapFunc = TypedMapFunc[client.Object, Request]

// A TypedMapFunc returns the requests for an object. It must not change the object.
type TypedMapFunc[object any, request comparable] func(context.Context, object) []request

// EnqueueRequestsFromMapFunc adds the requests that a function returns; for an update, those of the
// old object and of the new one, each request once.
func EnqueueRequestsFromMapFunc(fn MapFunc) EventHandler {
	return TypedEnqueueRequestsFromMapFunc(fn)
}

// TypedEnqueueRequestsFromMapFunc is EnqueueRequestsFromMapFunc for objects and requests of other
// types.
func TypedEnqueueRequestsFromMapFunc[object any, request comparable](fn TypedMapFunc[object, request]) TypedEventHandler[object, request] {
	return mapped[object, request]{fn}
}

type mapped[object any, request comparable] struct{ requests TypedMapFunc[object, request] }

func (m mapped[object, request]) Create(ctx context.Context, e TypedCreateEvent[object], q workqueue.TypedRateLimitingInterface[request]) {
	m.add(ctx, q, e.Object)
}

func (m mapped[object, request]) Update(ctx context.Context, e TypedUpdateEvent[object], q workqueue.TypedRateLimitingInterface[request]) {
	m.add(ctx, q, e.ObjectOld, e.ObjectNew)
}

func (m mapped[object, request]) Delete(ctx context.Context, e TypedDeleteEvent[object], q workqueue.TypedRateLimitingInterface[request]) {
	m.add(ctx, q, e.Object)
}

func (m mapped[object, request]) Generic(ctx context.Context, e TypedGenericEvent[object], q workqueue.TypedRateLimitingInterface[request]) {
	m.add(ctx, q, e.Object)
}

func (m mapped[object, request]) add(ctx context.Context, q workqueue.TypedRateLimitingInterface[request], objects ...object) {
	var added map[request]bool
	for _, obj := range objects {
		requests := m.requests(ctx, obj)
		if added == nil {
			added = make(map[request]bool, len(requests))
		}
		for _, r := range requests {
			if !added[r] {
				added[r] = true
				q.Add(r)
			}
		}
	}
}
