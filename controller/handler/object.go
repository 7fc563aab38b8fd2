package handler

import (
	"context"
	"reflect"

	"github.com/go-logr/logr"

	"github.com/kapok-dev/kapok/client"
)

// EnqueueRequestForObject adds the object itself.
type EnqueueRequestForObject struct{}

// Create implements EventHandler.
func (EnqueueRequestForObject) Create(ctx context.Context, e CreateEvent, q Queue) {
	addObject(ctx, q, e.Object)
}

// Update implements EventHandler.
func (EnqueueRequestForObject) Update(ctx context.Context, e UpdateEvent, q Queue) {
	addObject(ctx, q, e.ObjectNew)
}

// Delete implements EventHandler.
func (EnqueueRequestForObject) Delete(ctx context.Context, e DeleteEvent, q Queue) {
	addObject(ctx, q, e.Object)
}

// Generic implements EventHandler.
func (EnqueueRequestForObject) Generic(ctx context.Context, e GenericEvent, q Queue) {
	addObject(ctx, q, e.Object)
}

// MetadataOnly says that the metadata of objects is enough.
func (EnqueueRequestForObject) MetadataOnly() bool { return true }

func addObject(ctx context.Context, q Queue, obj client.Object) {
	if !missing(ctx, obj) {
		q.Add(RequestFor(obj))
	}
}

// missing says that an event has no object, and logs it. Whoever sends events himself may forget it.
func missing(ctx context.Context, obj client.Object) bool {
	v := reflect.ValueOf(obj)
	if v.IsValid() && !(v.Kind() == reflect.Pointer && v.IsNil()) {
		return false
	}
	logr.FromContextOrDiscard(ctx).Error(nil, "An event has no object: it is ignored")
	return true
}
