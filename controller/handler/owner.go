package handler

import (
	"context"
	"fmt"
	"slices"

	"github.com/kapok-dev/kapok/client"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// An OwnerOption selects the owners that EnqueueRequestForOwner handles.
type OwnerOption func(*ownerOptions)

type ownerOptions struct{ onlyController bool }

// OnlyControllerOwner ignores owners of an object other than its controller.
func OnlyControllerOwner() OwnerOption {
	return func(o *ownerOptions) { o.onlyController = true }
}

// EnqueueRequestForOwner adds the owners of an object that are of the type of owner, whatever their
// version; for an update, those that it had and those that it has. The mapper reports whether the
// owners have a namespace; while it does not know, both are added: that with and that without. If
// the scheme does not know the type, the source that gets the handler does not start.
func EnqueueRequestForOwner(scheme *runtime.Scheme, mapper meta.RESTMapper, owner client.Object, opts ...OwnerOption) EventHandler {
	return TypedEnqueueRequestForOwner[client.Object](scheme, mapper, owner, opts...)
}

// TypedEnqueueRequestForOwner is EnqueueRequestForOwner for objects of one type.
func TypedEnqueueRequestForOwner[object client.Object](scheme *runtime.Scheme, mapper meta.RESTMapper, owner client.Object, opts ...OwnerOption) TypedEventHandler[object, Request] {
	o := &owners{mapper: mapper}
	if gvk, err := client.GVKForObject(owner, scheme); err != nil {
		o.err = fmt.Errorf("kind of the owner: %w", err)
	} else {
		o.kind = gvk.GroupKind()
	}
	for _, opt := range opts {
		opt(&o.ownerOptions)
	}
	return ownerHandler[object]{o}
}

// An ownerHandler is the TypedEventHandler of owners.
type ownerHandler[object client.Object] struct{ *owners }

func (h ownerHandler[object]) Create(ctx context.Context, e TypedCreateEvent[object], q Queue) {
	h.add(ctx, q, e.Object)
}

func (h ownerHandler[object]) Update(ctx context.Context, e TypedUpdateEvent[object], q Queue) {
	h.add(ctx, q, e.ObjectOld, e.ObjectNew)
}

func (h ownerHandler[object]) Delete(ctx context.Context, e TypedDeleteEvent[object], q Queue) {
	h.add(ctx, q, e.Object)
}

func (h ownerHandler[object]) Generic(ctx context.Context, e TypedGenericEvent[object], q Queue) {
	h.add(ctx, q, e.Object)
}

type owners struct {
	ownerOptions
	kind   schema.GroupKind
	mapper meta.RESTMapper
	err    error
}

// Err returns an error if the handler cannot work. Sources check it before they start.
func (o *owners) Err() error { return o.err }

// MetadataOnly reports that the handler needs only the metadata of objects.
func (o *owners) MetadataOnly() bool { return true }

func (o *owners) add(ctx context.Context, q Queue, objects ...client.Object) {
	var added []Request // few: a set would cost more
	for _, obj := range objects {
		if missing(ctx, obj) {
			continue
		}
		for _, r := range o.requests(ctx, obj) {
			if !slices.Contains(added, r) {
				added = append(added, r)
				q.Add(r)
			}
		}
	}
}

// requests are those for the owners of an object.
func (o *owners) requests(ctx context.Context, obj client.Object) (found []Request) {
	for _, ref := range obj.GetOwnerReferences() {
		if o.onlyController && (ref.Controller == nil || !*ref.Controller) {
			continue
		}
		gv, err := schema.ParseGroupVersion(ref.APIVersion)
		if err != nil || (schema.GroupKind{Group: gv.Group, Kind: ref.Kind}) != o.kind {
			continue
		}
		found = append(found, o.requestsFor(ctx, obj, gv.Version, ref)...)
	}
	return found
}

// requestsFor returns one request, or two if it is unknown whether the owner has a namespace.
func (o *owners) requestsFor(ctx context.Context, obj client.Object, version string, ref metav1.OwnerReference) []Request {
	var inCluster, inNamespace Request
	inCluster.Name, inNamespace.Name = ref.Name, ref.Name
	inNamespace.Namespace = obj.GetNamespace()
	if inNamespace == inCluster {
		return []Request{inCluster}
	}
	mapping, err := o.mapper.RESTMapping(o.kind) // the version may no longer be served, and all have the same scope
	if meta.IsNoMatchError(err) {
		mapping, err = o.mapper.RESTMapping(o.kind, version) // a mapper may not know which version to prefer
	}
	switch {
	case err != nil:
		logr.FromContextOrDiscard(ctx).Error(err, "Cannot tell whether the owner has a namespace", "kind", o.kind, "version", version)
		return []Request{inNamespace, inCluster}
	case mapping.Scope.Name() == meta.RESTScopeNameRoot:
		return []Request{inCluster}
	default:
		return []Request{inNamespace}
	}
}
