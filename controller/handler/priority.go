package handler

import (
	"time"

	"github.com/kapok-dev/kapok/workqueue"
)

// LowPriority is the priority of what an initial list or a resync adds. Live events have 0.
const LowPriority = -100

// WithPriority is a queue in which everything has a priority that is added without one, or with 0.
func WithPriority(q Queue, priority int) Queue { return prioritized{q, priority} }

// QueueForCreate is the queue to call a handler with for an event: of low priority in the initial list.
func QueueForCreate(q Queue, e CreateEvent) Queue {
	if e.IsInInitialList {
		return WithPriority(q, LowPriority)
	}
	return q
}

// QueueForUpdate is the queue to call a handler with for an event: of low priority if nothing has changed.
func QueueForUpdate(q Queue, e UpdateEvent) Queue {
	if e.ObjectOld.GetResourceVersion() == e.ObjectNew.GetResourceVersion() {
		return WithPriority(q, LowPriority)
	}
	return q
}

type prioritized struct {
	Queue
	priority int
}

func (p prioritized) Add(r Request) { p.AddWithOpts(workqueue.AddOpts{}, r) }

func (p prioritized) AddAfter(r Request, after time.Duration) {
	p.AddWithOpts(workqueue.AddOpts{After: after}, r)
}

func (p prioritized) AddRateLimited(r Request) {
	p.AddWithOpts(workqueue.AddOpts{RateLimited: true}, r)
}

func (p prioritized) AddWithOpts(opts workqueue.AddOpts, requests ...Request) {
	if opts.Priority == 0 {
		opts.Priority = p.priority
	}
	p.Queue.AddWithOpts(opts, requests...)
}
