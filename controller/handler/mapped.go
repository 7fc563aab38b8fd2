package handler

import (
	"context"

	"github.com/kapok-dev/kapok/client"
)

// A MapFunc says which objects are to be reconciled because of one. It must not change it.
type MapFunc func(context.Context, client.Object) []Request

// EnqueueRequestsFromMapFunc adds what a function says; for an update, of the old object and of the new one, each request once.
func EnqueueRequestsFromMapFunc(fn MapFunc) EventHandler { return mapped(fn) }

type mapped MapFunc

func (m mapped) Create(ctx context.Context, e CreateEvent, q Queue)   { m.add(ctx, q, e.Object) }
func (m mapped) Delete(ctx context.Context, e DeleteEvent, q Queue)   { m.add(ctx, q, e.Object) }
func (m mapped) Generic(ctx context.Context, e GenericEvent, q Queue) { m.add(ctx, q, e.Object) }

func (m mapped) Update(ctx context.Context, e UpdateEvent, q Queue) {
	m.add(ctx, q, e.ObjectOld, e.ObjectNew)
}

func (m mapped) add(ctx context.Context, q Queue, objects ...client.Object) {
	var added map[Request]bool
	for _, obj := range objects {
		requests := m(ctx, obj)
		if added == nil {
			added = make(map[Request]bool, len(requests))
		}
		for _, r := range requests {
			if !added[r] {
				added[r] = true
				q.Add(r)
			}
		}
	}
}
