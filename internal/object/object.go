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

// A Revision numbers the writes of a whole store, from 1 on. Zero stands for
// "no such object". Clients see it, in decimal, as the resourceVersion.
type Revision int64

// String returns the resourceVersion that clients see.
func (r Revision) String() string { return strconv.FormatInt(int64(r), 10) }

// A Key names an object. Namespace is empty for cluster-scoped resources.
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
	Written  time.Time // when that was; what the TTL of events counts from
	Schema   uint64    // fingerprint of the schema that Raw was normalised with; 0 if unknown
	Raw      []byte    // canonical JSON of the storage version without resourceVersion
	Meta     Meta
	// Stale says that the object is stored in a way that is no longer wanted, like
	// encrypted with an old key: a write that changes nothing is worth while.
	Stale bool

	splice int32 // where the resourceVersion goes in Raw
	forms  atomic.Pointer[form]
}

// Meta is the part of ObjectMeta that the server looks at without decoding.
//
// Its strings are parts of the object's bytes, as far as JSON has them as they are:
// who keeps one for longer than the object clones it.
type Meta struct {
	UID        types.UID
	Labels     Labels
	Finalizers []string
	Owners     []Owner
	Created    time.Time
	deleting   bool // there is a deletionTimestamp
}

// Owner is an entry of metadata.ownerReferences.
type Owner struct {
	APIVersion, Kind, Name string
	UID                    types.UID
	Controller             bool
	BlockOwnerDeletion     bool
}

// Deleting says whether the object has been asked to go.
func (m *Meta) Deleting() bool { return m.deleting }

// HasFinalizer says whether the object waits for the given finalizer.
func (m *Meta) HasFinalizer(name string) bool {
	for _, f := range m.Finalizers {
		if f == name {
			return true
		}
	}
	return false
}

// Size is what the object counts in bounds on memory, in bytes.
func (o *Object) Size() int { return len(o.Raw) + int(unsafe.Sizeof(*o)) + 48 }
