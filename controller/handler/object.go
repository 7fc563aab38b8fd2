package handler

import "context"

// EnqueueRequestForObject adds the object itself.
type EnqueueRequestForObject struct{}

// Create implements EventHandler.
func (EnqueueRequestForObject) Create(_ context.Context, e CreateEvent, q Queue) {
	q.Add(RequestFor(e.Object))
}

// Update implements EventHandler.
func (EnqueueRequestForObject) Update(_ context.Context, e UpdateEvent, q Queue) {
	q.Add(RequestFor(e.ObjectNew))
}

// Delete implements EventHandler.
func (EnqueueRequestForObject) Delete(_ context.Context, e DeleteEvent, q Queue) {
	q.Add(RequestFor(e.Object))
}

// Generic implements EventHandler.
func (EnqueueRequestForObject) Generic(_ context.Context, e GenericEvent, q Queue) {
	q.Add(RequestFor(e.Object))
}

// MetadataOnly says that the metadata of objects is enough.
func (EnqueueRequestForObject) MetadataOnly() bool { return true }
