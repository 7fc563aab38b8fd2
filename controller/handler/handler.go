package handler

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/workqueue"
)

// A Request names the object that is to be reconciled, and says nothing about what has happened.
type Request struct {
	types.NamespacedName
}

// RequestFor is the request for an object.
func RequestFor(obj client.Object) Request {
	return Request{NamespacedName: client.ObjectKeyFromObject(obj)}
}

// A Queue takes the requests of a handler. It is safe for use by several goroutines.
type Queue interface {
	// Add adds a request. One that waits already is added no second time.
	Add(Request)
	// AddAfter adds a request when the time is up.
	AddAfter(Request, time.Duration)
	// AddRateLimited adds a request when the rate limiter of the controller allows it.
	AddRateLimited(Request)
	// AddWithOpts adds requests with a priority.
	AddWithOpts(workqueue.AddOpts, ...Request)
}

// An EventHandler puts requests into a queue, for what happens to objects. Its methods must not block for long: the events of a kind
// wait for each other. The objects belong to the handler.
type EventHandler interface {
	Create(context.Context, CreateEvent, Queue)
	Update(context.Context, UpdateEvent, Queue)
	Delete(context.Context, DeleteEvent, Queue)
	Generic(context.Context, GenericEvent, Queue)
}

// Funcs is an EventHandler of functions. What is nil does nothing.
type Funcs struct {
	CreateFunc  func(context.Context, CreateEvent, Queue)
	UpdateFunc  func(context.Context, UpdateEvent, Queue)
	DeleteFunc  func(context.Context, DeleteEvent, Queue)
	GenericFunc func(context.Context, GenericEvent, Queue)
}

// Create implements EventHandler.
func (f Funcs) Create(ctx context.Context, e CreateEvent, q Queue) {
	if f.CreateFunc != nil {
		f.CreateFunc(ctx, e, q)
	}
}

// Update implements EventHandler.
func (f Funcs) Update(ctx context.Context, e UpdateEvent, q Queue) {
	if f.UpdateFunc != nil {
		f.UpdateFunc(ctx, e, q)
	}
}

// Delete implements EventHandler.
func (f Funcs) Delete(ctx context.Context, e DeleteEvent, q Queue) {
	if f.DeleteFunc != nil {
		f.DeleteFunc(ctx, e, q)
	}
}

// Generic implements EventHandler.
func (f Funcs) Generic(ctx context.Context, e GenericEvent, q Queue) {
	if f.GenericFunc != nil {
		f.GenericFunc(ctx, e, q)
	}
}
