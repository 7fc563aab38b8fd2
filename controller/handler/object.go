package handler

import (
	"context"
	"reflect"

	"github.com/kapok-dev/kapok/client"

	"github.com/go-logr/logr"
)

// EnqueueRequestForObject adds the request for the object itself.
type EnqueueRequestForObject = TypedEnqueueRequestForObject[client.Object]

// TypedEnqueueRequestForObject is EnqueueRequestForObject for objects of one type.
type TypedEnqueueRequestForObject[object client.Object] struct{}

// Create implements TypedEventHandler.
func (TypedEnqueueRequestForObject[object]) Create(ctx context.Context, e TypedCreateEvent[object], q Queue) {
	addObject(ctx, q, e.Object)
}

// Update implements TypedEventHandler.
func (TypedEnqueueRequestForObject[object]) Update(ctx context.Context, e TypedUpdateEvent[object], q Queue) {
	addObject(ctx, q, e.ObjectNew)
}

// Delete implements TypedEventHandler.
func (TypedEnqueueRequestForObject[object]) Delete(ctx context.Context, e TypedDeleteEvent[object], q Queue) {
	addObject(ctx, q, e.Object)
}

// Generic implements TypedEventHandler.
func (TypedEnqueueRequestForObject[object]) Generic(ctx context.Context, e TypedGenericEvent[object], q Queue) {
	addObject(ctx, q, e.Object)
}

// MetadataOnly reports that the metadata of objects is enough.
func (TypedEnqueueRequestForObject[object]) MetadataOnly() bool { return true }

func addObject(ctx context.Context, q Queue, obj client.Object) {
	if !missing(ctx, obj) {
		q.Add(RequestFor(obj))
	}
}

// missing reports and logs that an event has no object, which can happen to events that a program
// sends itself.
func missing(ctx context.Context, obj client.Object) bool {
	if !isNil(obj) {
		return false
	}
	logr.FromContextOrDiscard(ctx).Error(nil, "An event has no object: it is ignored")
	return true
}

func isNil(obj any) bool {
	v := reflect.ValueOf(obj)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}
