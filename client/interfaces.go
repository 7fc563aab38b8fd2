package client

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// An Object is what the API keeps: a Go type of a Scheme, an unstructured.Unstructured or a metav1.PartialObjectMetadata.
type Object interface {
	metav1.Object
	runtime.Object
}

// An ObjectList is a list of objects of one kind.
type ObjectList interface {
	metav1.ListInterface
	runtime.Object
}

// An ObjectKey names an object of a kind. Namespace is "" for kinds that have none.
type ObjectKey = types.NamespacedName

// ObjectKeyFromObject returns the key of an object.
func ObjectKeyFromObject(obj Object) ObjectKey {
	return ObjectKey{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// A Reader reads objects: from the server, or from a cache of it. Its errors are those of k8s.io/apimachinery/pkg/api/errors.
type Reader interface {
	// Get reads one object into obj, which the caller owns.
	Get(ctx context.Context, key ObjectKey, obj Object, opts ...GetOption) error
	// List reads objects into list, whose items the caller owns.
	List(ctx context.Context, list ObjectList, opts ...ListOption) error
}

// A Writer writes objects. What the server answers is decoded into the object that was given.
type Writer interface {
	Create(ctx context.Context, obj Object, opts ...CreateOption) error
	// Update replaces an object. It fails with a conflict if obj has a resourceVersion that is not the newest.
	Update(ctx context.Context, obj Object, opts ...UpdateOption) error
	// Patch changes an object as patch says: see MergeFrom, StrategicMergeFrom and RawPatch.
	Patch(ctx context.Context, obj Object, patch Patch, opts ...PatchOption) error
	// Apply is a server-side apply of an apply configuration of k8s.io/client-go/applyconfigurations, or of what
	// ApplyConfigurationFrom makes of an object. A field that another owner set to another value is a conflict (apierrors.IsConflict); with
	// ForceOwnership, as controllers want it, it is taken over.
	Apply(ctx context.Context, obj runtime.ApplyConfiguration, opts ...ApplyOption) error
	Delete(ctx context.Context, obj Object, opts ...DeleteOption) error
	// DeleteAllOf deletes all objects of the kind of obj that the options select.
	DeleteAllOf(ctx context.Context, obj Object, opts ...DeleteAllOfOption) error
}

// A SubResourceReader reads a subresource of objects.
type SubResourceReader interface {
	// Get reads a subresource of obj, of which the name and the namespace matter, into subResource.
	Get(ctx context.Context, obj Object, subResource Object, opts ...SubResourceGetOption) error
}

// A SubResourceWriter writes a subresource of objects.
type SubResourceWriter interface {
	// Create posts subResource to the subresource of obj, as for evictions and tokens.
	Create(ctx context.Context, obj Object, subResource Object, opts ...SubResourceCreateOption) error
	// Update puts obj, or what WithSubResourceBody names, to the subresource of obj.
	Update(ctx context.Context, obj Object, opts ...SubResourceUpdateOption) error
	Patch(ctx context.Context, obj Object, patch Patch, opts ...SubResourcePatchOption) error
	Apply(ctx context.Context, obj runtime.ApplyConfiguration, opts ...SubResourceApplyOption) error
}

// A StatusWriter writes the status of objects.
type StatusWriter = SubResourceWriter

// A SubResourceClient reads and writes a subresource of objects.
type SubResourceClient interface {
	SubResourceReader
	SubResourceWriter
}

// A Client reads and writes the objects of an API server: of any Go type of its Scheme, unstructured, or their metadata alone.
type Client interface {
	Reader
	Writer
	Status() StatusWriter
	SubResource(name string) SubResourceClient

	Scheme() *runtime.Scheme
	RESTMapper() meta.RESTMapper
	// GroupVersionKindFor is the kind of an object or a list: that of its type in the Scheme, or what it says itself.
	GroupVersionKindFor(obj runtime.Object) (schema.GroupVersionKind, error)
	// IsObjectNamespaced asks the server, once for a kind.
	IsObjectNamespaced(obj runtime.Object) (bool, error)
}

// WithWatch is a Client that can watch, too. Who wants to follow a kind for long had better use a cache.
type WithWatch interface {
	Client
	Watch(ctx context.Context, list ObjectList, opts ...ListOption) (watch.Interface, error)
}

// A Patch is a change of an object.
type Patch interface {
	Type() types.PatchType
	// Data is the body of the request, for the object that is given to Writer.Patch.
	Data(obj Object) ([]byte, error)
}

// An IndexerFunc returns the values by which an object is to be found in an index. It must not change the object.
type IndexerFunc func(Object) []string

// A FieldIndexer adds indices to a cache.
type FieldIndexer interface {
	// IndexField has MatchingFields{field: value} find objects of the type of obj by what extractValue returns. Call it before
	// the first read of the kind.
	IndexField(ctx context.Context, obj Object, field string, extractValue IndexerFunc) error
}

// IgnoreNotFound returns nil for errors that say that there is no such object, and other errors as they are.
func IgnoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// IgnoreAlreadyExists returns nil for errors that say that the object exists, and other errors as they are.
func IgnoreAlreadyExists(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
