package handler

import "github.com/kapok-dev/kapok/client"

type (
	// A CreateEvent is a TypedCreateEvent of an object of any kind.
	CreateEvent = TypedCreateEvent[client.Object]
	// An UpdateEvent is a TypedUpdateEvent of an object of any kind.
	UpdateEvent = TypedUpdateEvent[client.Object]
	// A DeleteEvent is a TypedDeleteEvent of an object of any kind.
	DeleteEvent = TypedDeleteEvent[client.Object]
	// A GenericEvent is a TypedGenericEvent of an object of any kind.
	GenericEvent = TypedGenericEvent[client.Object]
)

// A TypedCreateEvent reports an object that was not known before.
type TypedCreateEvent[object any] struct {
	Object object
	// IsInInitialList is true if the object existed before the controller started.
	IsInInitialList bool
}

// A TypedUpdateEvent reports a changed object; or, if the resourceVersions are equal, an object
// that a resync reports again.
type TypedUpdateEvent[object any] struct {
	ObjectOld, ObjectNew object
}

// A TypedDeleteEvent reports an object that no longer exists.
type TypedDeleteEvent[object any] struct {
	// Object is the last known state.
	Object object
	// DeleteStateUnknown is true if the deletion itself was missed: the object may have changed
	// before it.
	DeleteStateUnknown bool
}

// A TypedGenericEvent reports anything else about an object, from outside of the API.
type TypedGenericEvent[object any] struct {
	Object object
}
