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

// An Object is an API object: a Go type of a Scheme, an unstructured.Unstructured or a
// metav1.PartialObjectMetadata.
type Object interface {
	metav1.Object
	runtime.Object
}

// An ObjectList is a list of objects of one kind.
type ObjectList interface {
	metav1.ListInterface
	runtime.Object
}

// An ObjectKey identifies an object of a kind. Namespace is "" for cluster-scoped kinds.
type ObjectKey = types.NamespacedName

// ObjectKeyFromObject returns the key of an object.
func ObjectKeyFromObject(obj Object) ObjectKey {
	return ObjectKey{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// A Reader reads objects from the server or from a cache. Its errors are those of
// k8s.io/apimachinery/pkg/api/errors. It is safe for concurrent use.
type Reader interface {
	// Get reads one object into obj. The caller owns the result.
	Get(ctx context.Context, key ObjectKey, obj Object, opts ...GetOption) error
	// List reads objects into list. The caller owns the items.
	List(ctx context.Context, list ObjectList, opts ...ListOption) error
}

// A Writer writes objects. The response is decoded into the object of the call. It is safe for
// concurrent use.
type Writer interface {
	// Create creates an object, with a name of the server's choice if obj has only a generateName.
	Create(ctx context.Context, obj Object, opts ...CreateOption) error
	// Update replaces an object. It returns a conflict error if obj has a resourceVersion that is
	// not the current one.
	Update(ctx context.Context, obj Object, opts ...UpdateOption) error
	// Patch sends patch for an object: see MergeFrom, StrategicMergeFrom and RawPatch.
	Patch(ctx context.Context, obj Object, patch Patch, opts ...PatchOption) error
	// Apply is a server-side apply of an apply configuration of
	// k8s.io/client-go/applyconfigurations or of ApplyConfigurationFrom. A field that another owner
	// has set to another value is a conflict (apierrors.IsConflict); with ForceOwnership, which
	// controllers should use, the field is taken over.
	Apply(ctx context.Context, obj runtime.ApplyConfiguration, opts ...ApplyOption) error
	// Delete deletes the object with the kind, the namespace and the name of obj.
	Delete(ctx context.Context, obj Object, opts ...DeleteOption) error
	// DeleteAllOf deletes all objects of the kind of obj that the options select.
	DeleteAllOf(ctx context.Context, obj Object, opts ...DeleteAllOfOption) error
}

// A SubResourceReader reads a subresource of objects.
type SubResourceReader interface {
	// Get reads a subresource of obj into subResource. Only name and namespace of obj are used.
	Get(ctx context.Context, obj Object, subResource Object, opts ...SubResourceGetOption) error
}

// A SubResourceWriter writes a subresource of objects.
type SubResourceWriter interface {
	// Create posts subResource to the subresource of obj, as for evictions and tokens.
	Create(ctx context.Context, obj Object, subResource Object, opts ...SubResourceCreateOption) error
	// Update puts obj, or the object of WithSubResourceBody, to the subresource of obj.
	Update(ctx context.Context, obj Object, opts ...SubResourceUpdateOption) error
	// Patch patches the subresource of obj.
	Patch(ctx context.Context, obj Object, patch Patch, opts ...SubResourcePatchOption) error
	// Apply is a server-side apply to the subresource of obj: see Writer.Apply.
	Apply(ctx context.Context, obj runtime.ApplyConfiguration, opts ...SubResourceApplyOption) error
}

// A StatusWriter writes the status of objects.
type StatusWriter = SubResourceWriter

// A SubResourceClient reads and writes a subresource of objects.
type SubResourceClient interface {
	SubResourceReader
	SubResourceWriter
}

// A StatusClient returns a client of the subresource status.
type StatusClient interface {
	Status() SubResourceWriter
}

// A SubResourceClientConstructor returns clients of subresources.
type SubResourceClientConstructor interface {
	SubResource(name string) SubResourceClient
}

// A Client reads and writes the objects of an API server: Go types of its Scheme, unstructured
// objects, or metadata only.
type Client interface {
	Reader
	Writer
	StatusClient
	SubResourceClientConstructor

	// Scheme returns the Go types of the client.
	Scheme() *runtime.Scheme
	// RESTMapper returns the mapping between kinds and resources of the client.
	RESTMapper() meta.RESTMapper
	// GroupVersionKindFor returns the kind of an object or a list: the one of its Go type in the
	// Scheme, or the one that it carries.
	GroupVersionKindFor(obj runtime.Object) (schema.GroupVersionKind, error)
	// IsObjectNamespaced asks the server, once for each kind.
	IsObjectNamespaced(obj runtime.Object) (bool, error)
}

// WithWatch is a Client that can also watch. Long-running programs should use a cache instead.
type WithWatch interface {
	Client
	// Watch begins a watch of the kind of list. The caller stops it.
	Watch(ctx context.Context, list ObjectList, opts ...ListOption) (watch.Interface, error)
}

// A Patch is a change of an object.
type Patch interface {
	// Type returns the media type of the patch.
	Type() types.PatchType
	// Data returns the body of the request for the object that is passed to Writer.Patch.
	Data(obj Object) ([]byte, error)
}

// An IndexerFunc returns the values of an object in an index. It must not change the object.
type IndexerFunc func(Object) []string

// A FieldIndexer adds indices to a cache.
type FieldIndexer interface {
	// IndexField adds an index, so that MatchingFields{field: value} finds objects of the type of
	// obj by the values that extractValue returns. Call it before the first read of the kind.
	IndexField(ctx context.Context, obj Object, field string, extractValue IndexerFunc) error
}

// IgnoreNotFound returns nil for a "not found" error, and err otherwise.
func IgnoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// IgnoreAlreadyExists returns nil for an "already exists" error, and err otherwise.
func IgnoreAlreadyExists(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
