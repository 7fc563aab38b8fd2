package cache

import (
	"context"
	"time"

	"github.com/kapok-dev/kapok/client"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A Cache reads objects of any kind from its informers. The first read of a kind starts an
// informer, and waits until it has synced. The caller owns what it reads. A Cache is safe for
// concurrent use.
type Cache interface {
	client.Reader
	Informers
}

// Informers are the informers of a cache, one for each kind and form (typed, unstructured, or
// metadata only).
type Informers interface {
	client.FieldIndexer

	// GetInformer returns the informer of the kind of obj. It creates it if there is none, and waits
	// until it has synced: see BlockUntilSynced.
	GetInformer(ctx context.Context, obj client.Object, opts ...InformerGetOption) (Informer, error)
	// GetInformerForKind is GetInformer for a kind in the Scheme.
	GetInformerForKind(ctx context.Context, gvk schema.GroupVersionKind, opts ...InformerGetOption) (Informer, error)
	// RemoveInformer stops the informer of the kind of obj, and drops its objects. It returns after
	// the last call of the informer's handlers; a handler must not call it.
	RemoveInformer(ctx context.Context, obj client.Object) error

	// Start runs the informers until ctx ends, and returns after they have ended. It can be called
	// once.
	Start(ctx context.Context) error
	// WaitForCacheSync waits until the cache is started and all informers that it has by then have
	// synced. It returns false if ctx or an informer ends first.
	WaitForCacheSync(ctx context.Context) bool
}

// An Informer maintains the objects of a kind. It is safe for concurrent use.
type Informer interface {
	InformerWaiter

	// AddEventHandler adds a handler. It is called for every existing object, and then for each
	// change, in order, by a goroutine of its own: a slow handler delays no other one. The handler
	// owns the objects.
	AddEventHandler(handler EventHandler, opts ...HandlerOption) (Registration, error)
	// RemoveEventHandler removes a handler. It returns after the last call of the handler, which
	// must not call it.
	RemoveEventHandler(Registration) error
	// AddIndexers adds indices. Existing objects are indexed at once. It returns an error if a name
	// is in use.
	AddIndexers(map[string]client.IndexerFunc) error
	// HasSynced reports whether all objects that existed at the start are in the store.
	HasSynced() bool
	// IsStopped reports whether the informer has ended.
	IsStopped() bool
}

// An InformerWaiter waits until an informer has caught up with a write. Its methods return the
// error of ctx if that ends first.
type InformerWaiter interface {
	// WaitForRevision waits until the store includes a resourceVersion. The informer learns that
	// from the next event or bookmark, which servers send about once a minute; if it is restricted
	// by a selector, it needs one in each of its namespaces. For a single object, WaitForObject is
	// faster.
	WaitForRevision(ctx context.Context, resourceVersion string) error
	// WaitForObject waits until the store has seen obj, as a write returned it: in this state or a
	// later one, or not at all if the informer excludes it. Whether a field selector excludes an
	// object that is not in the store is known only for its name, its namespace, and string fields
	// of a Go type; for other fields the call waits as WaitForRevision does.
	WaitForObject(ctx context.Context, obj client.Object) error
	// WaitForDeletion waits until the store has no object with this key and uid, or one that is
	// being deleted. An object that the store has not seen yet counts as deleted: wait for that
	// first.
	WaitForDeletion(ctx context.Context, key client.ObjectKey, uid string) error
}

// An EventHandler receives the changes of a kind. It owns the objects.
type EventHandler interface {
	// OnAdd is called for an object that is new in the cache. isInInitialList says that it existed
	// when the handler was added.
	OnAdd(obj client.Object, isInInitialList bool)
	// OnUpdate is called for a change, and for every object at each resync, with equal
	// resourceVersions.
	OnUpdate(old, obj client.Object)
	// OnDelete gets the last known state. unknown means that the deletion itself was missed: the
	// object may have changed after that state.
	OnDelete(obj client.Object, unknown bool)
}

// A Registration identifies a handler that was added.
type Registration interface {
	// HasSynced reports whether the handler has been called for all objects that existed at the
	// start.
	HasSynced() bool
}

// An InformerGetOption is an option of GetInformer.
type InformerGetOption func(*InformerGetOptions)

// InformerGetOptions are the options of GetInformer.
type InformerGetOptions struct {
	BlockUntilSynced *bool // default true
}

// BlockUntilSynced sets whether GetInformer waits until the informer has synced.
func BlockUntilSynced(block bool) InformerGetOption {
	return func(o *InformerGetOptions) { o.BlockUntilSynced = &block }
}

// A HandlerOption is an option of AddEventHandler.
type HandlerOption func(*HandlerOptions)

// HandlerOptions are the options of AddEventHandler.
type HandlerOptions struct {
	// ResyncPeriod is the time between two resyncs. A resync calls OnUpdate for each object in the
	// store, with the same object twice, after the pending events. Default: that of the cache.
	ResyncPeriod time.Duration
	// MetadataOnly passes each object as a metav1.PartialObjectMetadata, which is cheaper to
	// decode. Default: false.
	MetadataOnly bool
}

// MetadataOnly sets HandlerOptions.MetadataOnly.
func MetadataOnly() HandlerOption {
	return func(o *HandlerOptions) { o.MetadataOnly = true }
}

// ResyncPeriod sets HandlerOptions.ResyncPeriod.
func ResyncPeriod(d time.Duration) HandlerOption {
	return func(o *HandlerOptions) { o.ResyncPeriod = d }
}
