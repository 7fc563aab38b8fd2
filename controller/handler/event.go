package handler

import "github.com/kapok-dev/kapok/client"

// A CreateEvent says that an object is there that was not known.
type CreateEvent struct {
	Object client.Object
	// IsInInitialList says that the object was there before the controller was.
	IsInInitialList bool
}

// An UpdateEvent says that an object has changed; or that a resync brings it up again, if the resourceVersions are equal.
type UpdateEvent struct {
	ObjectOld, ObjectNew client.Object
}

// A DeleteEvent says that an object is gone.
type DeleteEvent struct {
	// Object is its last state that is known.
	Object client.Object
	// DeleteStateUnknown says that the deletion was missed: the object may have changed after that.
	DeleteStateUnknown bool
}

// A GenericEvent is whatever else has to do with an object, from outside of the API.
type GenericEvent struct {
	Object client.Object
}
