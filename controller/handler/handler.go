package handler

import (
	"context"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/workqueue"

	"k8s.io/apimachinery/pkg/types"
)

// A Request is the namespace and name of an object to reconcile. It does not describe the event.
type Request struct {
	types.NamespacedName
}

// RequestFor returns the request for an object.
func RequestFor(obj client.Object) Request {
	return Request{NamespacedName: client.ObjectKeyFromObject(obj)}
}

type (
	// A Queue takes the requests of a handler. It is safe for use by several goroutines.
	Queue = workqueue.TypedRateLimitingInterface[Request]
	// An EventHandler is a TypedEventHandler of objects of any kind, with requests that name an
	// object.
	EventHandler = TypedEventHandler[client.Object, Request]
	// Funcs is an EventHandler of functions. A nil function does nothing.
	Funcs = TypedFuncs[client.Object, Request]
)

// A TypedEventHandler adds requests to a queue in response to events of objects. Its methods must
// not block for long, because the events of a kind are handled one after another. The objects
// belong to the handler.
type TypedEventHandler[object any, request comparable] interface {
	// Create handles a new object, or one that existed at the start.
	Create(context.Context, TypedCreateEvent[object], workqueue.TypedRateLimitingInterface[request])
	// Update handles a change, and the resync of an object that has not changed.
	Update(context.Context, TypedUpdateEvent[object], workqueue.TypedRateLimitingInterface[request])
	// Delete handles a deletion.
	Delete(context.Context, TypedDeleteEvent[object], workqueue.TypedRateLimitingInterface[request])
	// Generic handles an event from outside of the cluster.
	Generic(context.Context, TypedGenericEvent[object], workqueue.TypedRateLimitingInterface[request])
}

// TypedFuncs is a TypedEventHandler of functions. A nil function does nothing.
type TypedFuncs[object any, request comparable] struct {
	CreateFunc  func(context.Context, TypedCreateEvent[object], workqueue.TypedRateLimitingInterface[request])
	UpdateFunc  func(context.Context, TypedUpdateEvent[object], workqueue.TypedRateLimitingInterface[request])
	DeleteFunc  func(context.Context, TypedDeleteEvent[object], workqueue.TypedRateLimitingInterface[request])
	GenericFunc func(context.Context, TypedGenericEvent[object], workqueue.TypedRateLimitingInterface[request])
}

// Create implements TypedEventHandler.
func (f TypedFuncs[object, request]) Create(ctx context.Context, e TypedCreateEvent[object], q workqueue.TypedRateLimitingInterface[request]) {
	if f.CreateFunc != nil {
		f.CreateFunc(ctx, e, q)
	}
}

// Update implements TypedEventHandler.
func (f TypedFuncs[object, request]) Update(ctx context.Context, e TypedUpdateEvent[object], q workqueue.TypedRateLimitingInterface[request]) {
	if f.UpdateFunc != nil {
		f.UpdateFunc(ctx, e, q)
	}
}

// Delete implements TypedEventHandler.
func (f TypedFuncs[object, request]) Delete(ctx context.Context, e TypedDeleteEvent[object], q workqueue.TypedRateLimitingInterface[request]) {
	if f.DeleteFunc != nil {
		f.DeleteFunc(ctx, e, q)
	}
}

// Generic implements TypedEventHandler.
func (f TypedFuncs[object, request]) Generic(ctx context.Context, e TypedGenericEvent[object], q workqueue.TypedRateLimitingInterface[request]) {
	if f.GenericFunc != nil {
		f.GenericFunc(ctx, e, q)
	}
}
