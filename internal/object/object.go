// Package object holds an encoded object together with the metadata that the
// server needs without decoding it.
//
// An Object is immutable once it is visible to more than one goroutine, except
// for the cache of its served forms, which is append-only and safe for
// concurrent use. Its bytes are the canonical JSON of the storage version:
// sorted keys, no insignificant space, no resourceVersion. The resourceVersion
// of an object is the revision of the write that made it; it is spliced in when
// the object is served (see [Form]).
package object

import (
	"strconv"
	"sync/atomic"
	"time"
	"unsafe"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// A Revision numbers the writes of a whole store, starting at 1. Zero means "no such object".
// Clients see it in decimal as the resourceVersion.
type Revision int64

// String returns the resourceVersion that clients see.
func (r Revision) String() string { return strconv.FormatInt(int64(r), 10) }

// A Key identifies an object. Namespace is empty for cluster-scoped resources.
type Key struct {
	Resource  schema.GroupResource
	Namespace string
	Name      string
}

// String returns the key in the form resource.group/namespace/name, for messages.
func (k Key) String() string {
	if k.Namespace == "" {
		return k.Resource.String() + "/" + k.Name
	}
	return k.Resource.String() + "/" + k.Namespace + "/" + k.Name
}

// Less orders the keys of one resource: by namespace, then by name.
func (k Key) Less(o Key) bool {
	if k.Namespace != o.Namespace {
		return k.Namespace < o.Namespace
	}
	return k.Name < o.Name
}

// Object is one object at one revision.
type Object struct {
	Key      Key
	Revision Revision  // of the write that made it; set by the journal
	Written  time.Time // the time of that write; the TTL of events counts from it
	Schema   uint64    // fingerprint of the schema that Raw was normalised with; 0 if unknown
	Raw      []byte    // canonical JSON of the storage version without resourceVersion
	Meta     Meta
	// Stale reports that the stored form is outdated, for example encrypted with an old key: a
	// write that changes nothing is still worth storing.
	Stale bool

	splice int32 // position of the resourceVersion in Raw
	forms  atomic.Pointer[form]
}

// Meta is the part of ObjectMeta that the server reads without decoding the object.
//
// Its strings share the memory of the object's bytes unless they contain escapes: clone a string
// that outlives the object.
type Meta struct {
	UID        types.UID
	Labels     Labels
	Finalizers []string
	Owners     []Owner
	Created    time.Time
	deleting   bool // has a deletionTimestamp
}

// Owner is an entry of metadata.ownerReferences.
type Owner struct {
	APIVersion, Kind, Name string
	UID                    types.UID
	Controller             bool
	BlockOwnerDeletion     bool
}

// Deleting reports whether the object has a deletionTimestamp.
func (m *Meta) Deleting() bool { return m.deleting }

// HasFinalizer reports whether the object has the given finalizer.
func (m *Meta) HasFinalizer(name string) bool {
	for _, f := range m.Finalizers {
		if f == name {
			return true
		}
	}
	return false
}

// Size returns the bytes for which the object counts in limits on memory.
func (o *Object) Size() int { return len(o.Raw) + int(unsafe.Sizeof(*o)) + 48 }
