package handler

import (
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/workqueue"
)

// LowPriority is the priority of requests of an initial list or a resync. Live events have 0.
const LowPriority = -100

// WithPriority returns a queue that gives a priority to all requests that are added without one, or
// with 0.
func WithPriority[request comparable](q workqueue.TypedRateLimitingInterface[request], priority int) workqueue.TypedRateLimitingInterface[request] {
	return prioritized[request]{q, priority}
}

// WithLowPriorityWhenUnchanged returns h: the sources of package controller give each handler a
// queue with these priorities.
func WithLowPriorityWhenUnchanged[object client.Object, request comparable](h TypedEventHandler[object, request]) TypedEventHandler[object, request] {
	return h
}

// QueueForCreate returns the queue to call a handler with for an event: of low priority in the
// initial list.
func QueueForCreate[object any, request comparable](q workqueue.TypedRateLimitingInterface[request], e TypedCreateEvent[object]) workqueue.TypedRateLimitingInterface[request] {
	if e.IsInInitialList {
		return WithPriority(q, LowPriority)
	}
	return q
}

// QueueForUpdate returns the queue to call a handler with for an event: of low priority if the
// resourceVersion has not changed.
func QueueForUpdate[object any, request comparable](q workqueue.TypedRateLimitingInterface[request], e TypedUpdateEvent[object]) workqueue.TypedRateLimitingInterface[request] {
	before, isObject := any(e.ObjectOld).(client.Object)
	after, isObjectToo := any(e.ObjectNew).(client.Object)
	if isObject && isObjectToo && !isNil(before) && !isNil(after) && before.GetResourceVersion() == after.GetResourceVersion() {
		return WithPriority(q, LowPriority)
	}
	return q
}

type prioritized[request comparable] struct {
	workqueue.TypedRateLimitingInterface[request]
	priority int
}

func (p prioritized[request]) Add(r request) { p.AddWithOpts(workqueue.AddOpts{}, r) }

func (p prioritized[request]) AddAfter(r request, after time.Duration) {
	p.AddWithOpts(workqueue.AddOpts{After: after}, r)
}

func (p prioritized[request]) AddRateLimited(r request) {
	p.AddWithOpts(workqueue.AddOpts{RateLimited: true}, r)
}

func (p prioritized[request]) AddWithOpts(opts workqueue.AddOpts, requests ...request) {
	if opts.Priority == 0 {
		opts.Priority = p.priority
	}
	p.TypedRateLimitingInterface.AddWithOpts(opts, requests...)
}
