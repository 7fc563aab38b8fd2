package cache

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kapok-dev/kapok/client"
)

// A Cache reads objects of any kind from what its informers keep. The first read of a kind starts an informer for it, and waits
// until that has seen all objects there are. What is read belongs to the caller.
type Cache interface {
	client.Reader
	Informers
}

// Informers are the informers of a cache, one for a kind and a form (typed, unstructured, or metadata only).
type Informers interface {
	client.FieldIndexer

	// GetInformer returns the informer of the kind of obj, and waits until it has synced, unless an option says otherwise.
	GetInformer(ctx context.Context, obj client.Object, opts ...InformerGetOption) (Informer, error)
	// GetInformerForKind does so for a kind of the Scheme.
	GetInformerForKind(ctx context.Context, gvk schema.GroupVersionKind, opts ...InformerGetOption) (Informer, error)
	// RemoveInformer stops the informer of the kind of obj, and drops what it keeps. When it returns, the handlers of the informer have been
	// called for the last time; so they cannot call it.
	RemoveInformer(ctx context.Context, obj client.Object) error

	// Start runs the informers until the context ends, and returns when they have ended.
	Start(ctx context.Context) error
	// WaitForCacheSync waits until the cache is started and all informers that it has by then have seen what there was. It is false if the
	// context, or an informer, ends first.
	WaitForCacheSync(ctx context.Context) bool
}

// An Informer follows the objects of a kind.
type Informer interface {
	// AddEventHandler adds a handler, which hears of every object there is, and then of each change, in order. It is called by one
	// goroutine of its own, so that a slow handler delays nobody else. The objects belong to it.
	AddEventHandler(handler EventHandler, opts ...HandlerOption) (Registration, error)
	// RemoveEventHandler ends a handler. When it returns, the handler has been called for the last time; so the handler cannot call it.
	RemoveEventHandler(Registration) error
	// AddIndexers adds indices. What is there is indexed at once.
	AddIndexers(map[string]client.IndexerFunc) error
	// HasSynced says that all objects that there were at the start are in the store.
	HasSynced() bool
	// IsStopped says that the informer has ended.
	IsStopped() bool
	// WaitForRevision waits until the store has what was true at a resourceVersion. That is known at the next event, or bookmark, which
	// servers send about once a minute: of an informer that is restricted by a selector, in each of its namespaces. If it is one object that
	// matters, WaitForObject is faster.
	WaitForRevision(ctx context.Context, resourceVersion string) error
	// WaitForObject waits until the store has seen obj, which is as the server returned it from a write: in this state or a later one, or not
	// at all if the informer is restricted to others. With a field selector of other fields than the name, the namespace and strings of a Go
	// type it cannot be known of an object that is not in the store whether it should be; then it is as with WaitForRevision.
	WaitForObject(ctx context.Context, obj client.Object) error
	// WaitForDeletion waits until the store has no object of this key and uid, or one that is being deleted. An object that the store has not
	// seen yet counts as deleted: wait for that first.
	WaitForDeletion(ctx context.Context, key client.ObjectKey, uid string) error
}

// An EventHandler hears of the changes of a kind.
type EventHandler interface {
	OnAdd(obj client.Object, isInInitialList bool)
	// OnUpdate is also called every resync period for each object, with equal resourceVersions.
	OnUpdate(old, obj client.Object)
	// OnDelete gets the last state that is known. unknown says that the deletion was missed: the object may have changed after that.
	OnDelete(obj client.Object, unknown bool)
}

// A Registration is a handler that has been added.
type Registration interface {
	// HasSynced says that the handler has been called for all objects that there were.
	HasSynced() bool
}

// An InformerGetOption says how an informer is got.
type InformerGetOption func(*InformerGetOptions)

// InformerGetOptions are the options of GetInformer.
type InformerGetOptions struct {
	BlockUntilSynced *bool // default true
}

// BlockUntilSynced says whether GetInformer waits for the informer.
func BlockUntilSynced(block bool) InformerGetOption {
	return func(o *InformerGetOptions) { o.BlockUntilSynced = &block }
}

// A HandlerOption says how a handler is called.
type HandlerOption func(*HandlerOptions)

// HandlerOptions are the options of AddEventHandler.
type HandlerOptions struct {
	// ResyncPeriod is how often the handler is called for each object anew. It hears of all that are in the store at the time, as updates from
	// what they are to what they are, after what it has not heard yet. Default: that of the cache.
	ResyncPeriod time.Duration
	// MetadataOnly has the handler get a metav1.PartialObjectMetadata of each object, which costs a part of decoding it.
	MetadataOnly bool
}

// MetadataOnly has a handler get no more than the metadata of objects.
func MetadataOnly() HandlerOption {
	return func(o *HandlerOptions) { o.MetadataOnly = true }
}

// ResyncPeriod has a handler called for each object again and again.
func ResyncPeriod(d time.Duration) HandlerOption {
	return func(o *HandlerOptions) { o.ResyncPeriod = d }
}
