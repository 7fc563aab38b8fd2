package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"sync/atomic"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	unstructuredv1 "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// A Handle reads and writes the objects of one kind through a Client, with the guarantees of that
// Client. It has no state except names, and is cheap to create. It is safe for concurrent use.
type Handle[T Object] struct {
	client    Client
	kind      func() (schema.GroupVersionKind, error)
	namespace string // "": all
}

// For returns a handle of a Go type of the Scheme of c. T is a pointer, like *batchv1.Job.
func For[T Object](c Client) *Handle[T] {
	return &Handle[T]{client: c, kind: func() (schema.GroupVersionKind, error) {
		if t := reflect.TypeFor[T](); t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct {
			return schema.GroupVersionKind{}, fmt.Errorf("handle of %v: not a pointer to a struct", t)
		}
		return c.GroupVersionKindFor(newObject[T]())
	}}
}

// Dynamic returns a handle of unstructured objects. It asks the server for the kind of the resource
// at its first use.
func Dynamic(c Client, gvr schema.GroupVersionResource) *Handle[*unstructuredv1.Unstructured] {
	return &Handle[*unstructuredv1.Unstructured]{client: c, kind: kindOf(c, gvr)}
}

// MetadataFor returns a handle of the metadata of objects, which can be read, patched, applied and
// deleted.
func MetadataFor(c Client, gvr schema.GroupVersionResource) *Handle[*metav1.PartialObjectMetadata] {
	return &Handle[*metav1.PartialObjectMetadata]{client: c, kind: kindOf(c, gvr)}
}

// kindOf returns a function that returns the kind of a resource, and caches it.
func kindOf(c Client, gvr schema.GroupVersionResource) func() (schema.GroupVersionKind, error) {
	var known atomic.Pointer[schema.GroupVersionKind]
	return func() (schema.GroupVersionKind, error) {
		if gvk := known.Load(); gvk != nil {
			return *gvk, nil
		}
		gvk, err := c.RESTMapper().KindFor(gvr)
		if err == nil {
			known.Store(&gvk)
		}
		return gvk, err
	}
}

// Key returns the key of an object. Use "" as the namespace for cluster-scoped kinds, and for
// handles that are in a namespace.
func Key(namespace, name string) ObjectKey { return ObjectKey{Namespace: namespace, Name: name} }

// In returns a handle of the objects in a namespace. Objects and keys without a namespace get this
// one; another namespace is an error.
func (h *Handle[T]) In(namespace string) *Handle[T] {
	in := *h
	in.namespace = namespace
	return &in
}

// Get reads an object.
func (h *Handle[T]) Get(ctx context.Context, key ObjectKey, opts ...GetOption) (T, error) {
	obj, err := h.object(key)
	if err == nil {
		err = h.client.Get(ctx, ObjectKeyFromObject(obj), obj, opts...)
	}
	return orNil(obj, err)
}

// List reads all objects at once. For many objects use All.
func (h *Handle[T]) List(ctx context.Context, opts ...ListOption) ([]T, error) {
	list, err := h.list(ctx, opts)
	if err != nil {
		return nil, err
	}
	return items[T](list)
}

// pageSize is the default page size of All.
const pageSize = 500

// All reads objects page by page, by default 500 at a time (see Limit), so that neither side holds
// all of them at once. All pages are of the state at the first one, unless the server drops that
// state in the meantime (410): the rest then has the current state. The iteration ends after an
// error. A client that reads from a cache returns everything in one page.
func (h *Handle[T]) All(ctx context.Context, opts ...ListOption) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		o := new(ListOptions).ApplyOptions(opts)
		if o.Limit == 0 {
			o.Limit = pageSize
		}
		var last string               // the position of the last returned object, in the order of the server
		var passed map[types.UID]bool // objects to skip
		for again := false; ; {
			page, next, err := h.page(ctx, o)
			if o.Continue != "" && apierrors.IsResourceExpired(err) {
				// The server usually returns a token to continue. Otherwise everything is read
				// again, and objects that were returned before are skipped.
				o.Continue = continueOf(err)
				again = o.Continue == ""
				continue
			}
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, obj := range page {
				place := obj.GetNamespace() + "/" + obj.GetName()
				if again && place <= last || passed[obj.GetUID()] {
					continue
				}
				if last = place; !yield(obj, nil) {
					return
				}
			}
			switch {
			case next != "":
				o.Continue = next
			case o.Continue == "" && o.Limit > 0 && int64(len(page)) >= o.Limit:
				// Either the server has exactly this many objects, or this is a cache, which
				// returns no token.
				passed = make(map[types.UID]bool, len(page))
				for _, obj := range page {
					passed[obj.GetUID()] = true
				}
				o.Limit = 0
			default:
				return
			}
		}
	}
}

// page reads a page of a list, and returns the token of the next one.
func (h *Handle[T]) page(ctx context.Context, o *ListOptions) (page []T, next string, err error) {
	list, err := h.list(ctx, []ListOption{o})
	if err != nil {
		return nil, "", err
	}
	page, err = items[T](list)
	return page, list.GetContinue(), err
}

// continueOf returns the token with which a server continues a list after it has dropped its state.
func continueOf(err error) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return status.Status().Continue
	}
	return ""
}

// Create creates obj, and decodes the response into it.
func (h *Handle[T]) Create(ctx context.Context, obj T, opts ...CreateOption) error {
	if err := h.adopt(obj); err != nil {
		return err
	}
	return h.client.Create(ctx, obj, opts...)
}

// Update replaces an object by obj, and decodes the response into obj.
func (h *Handle[T]) Update(ctx context.Context, obj T, opts ...UpdateOption) error {
	if err := h.adopt(obj); err != nil {
		return err
	}
	return h.client.Update(ctx, obj, opts...)
}

// Patch patches the object with the name of obj, and decodes the response into obj.
func (h *Handle[T]) Patch(ctx context.Context, obj T, patch Patch, opts ...PatchOption) error {
	if err := h.adopt(obj); err != nil {
		return err
	}
	return h.client.Patch(ctx, obj, patch, opts...)
}

// Apply is a server-side apply of obj, and decodes the response into it. It sends the fields that
// ApplyConfigurationFrom describes. Controllers should use the option ForceOwnership: without it, a
// field that another owner has set to another value is a conflict.
func (h *Handle[T]) Apply(ctx context.Context, obj T, opts ...ApplyOption) error {
	if err := h.adopt(obj); err != nil {
		return err
	}
	return h.client.Apply(ctx, ApplyConfigurationFrom(obj), opts...)
}

// Delete deletes an object.
func (h *Handle[T]) Delete(ctx context.Context, key ObjectKey, opts ...DeleteOption) error {
	obj, err := h.object(key)
	if err != nil {
		return err
	}
	return h.client.Delete(ctx, obj, opts...)
}

// DeleteAll deletes all objects that the options select, in the namespace of the handle. Servers
// require a namespace for namespaced kinds.
func (h *Handle[T]) DeleteAll(ctx context.Context, opts ...DeleteAllOfOption) error {
	obj, err := h.empty()
	if err != nil {
		return err
	}
	if h.namespace != "" {
		opts = append([]DeleteAllOfOption{InNamespace(h.namespace)}, opts...)
		if o := new(DeleteAllOfOptions).ApplyOptions(opts); o.Namespace != h.namespace {
			return h.elsewhere(o.Namespace)
		}
	}
	return h.client.DeleteAllOf(ctx, obj, opts...)
}

// Status returns a handle of the subresource status.
func (h *Handle[T]) Status() *SubHandle[T] { return h.SubResource("status") }

// SubResource returns a handle of a subresource.
func (h *Handle[T]) SubResource(name string) *SubHandle[T] { return &SubHandle[T]{h, name} }

// Scale reads the desired and the current number of replicas of an object.
func (h *Handle[T]) Scale(ctx context.Context, key ObjectKey) (*autoscalingv1.Scale, error) {
	scale := &autoscalingv1.Scale{}
	if err := h.SubResource("scale").Get(ctx, key, scale); err != nil {
		return nil, err
	}
	return scale, nil
}

// SetScale sets the desired number of replicas of an object, and returns the resulting scale.
func (h *Handle[T]) SetScale(ctx context.Context, key ObjectKey, replicas int32, opts ...SubResourcePatchOption) (*autoscalingv1.Scale, error) {
	obj, err := h.object(key)
	if err != nil {
		return nil, err
	}
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"replicas": replicas}})
	if err != nil {
		return nil, err
	}
	scale := &autoscalingv1.Scale{}
	opts = append(opts, WithSubResourceBody(scale))
	if err := h.client.SubResource("scale").Patch(ctx, obj, RawPatch(types.MergePatchType, patch), opts...); err != nil {
		return nil, err
	}
	return scale, nil
}

// A SubHandle reads and writes a subresource of the objects of one kind.
type SubHandle[T Object] struct {
	of   *Handle[T]
	name string
}

// Get reads the subresource of an object into sub.
func (s *SubHandle[T]) Get(ctx context.Context, key ObjectKey, sub Object, opts ...SubResourceGetOption) error {
	obj, err := s.of.object(key)
	if err != nil {
		return err
	}
	return s.of.client.SubResource(s.name).Get(ctx, obj, sub, opts...)
}

// Create posts sub to the subresource of an object, as for evictions and tokens, and decodes the
// response into it.
func (s *SubHandle[T]) Create(ctx context.Context, key ObjectKey, sub Object, opts ...SubResourceCreateOption) error {
	obj, err := s.of.object(key)
	if err != nil {
		return err
	}
	return s.of.client.SubResource(s.name).Create(ctx, obj, sub, opts...)
}

// Update puts obj to its subresource, and decodes the response into it.
func (s *SubHandle[T]) Update(ctx context.Context, obj T, opts ...SubResourceUpdateOption) error {
	if err := s.of.adopt(obj); err != nil {
		return err
	}
	return s.of.client.SubResource(s.name).Update(ctx, obj, opts...)
}

// Patch patches the subresource of the object with the name of obj, and decodes the response into
// obj.
func (s *SubHandle[T]) Patch(ctx context.Context, obj T, patch Patch, opts ...SubResourcePatchOption) error {
	if err := s.of.adopt(obj); err != nil {
		return err
	}
	return s.of.client.SubResource(s.name).Patch(ctx, obj, patch, opts...)
}

// Apply is a server-side apply of obj to its subresource. It sends the fields that
// ApplyConfigurationFrom describes.
func (s *SubHandle[T]) Apply(ctx context.Context, obj T, opts ...SubResourceApplyOption) error {
	if err := s.of.adopt(obj); err != nil {
		return err
	}
	return s.of.client.SubResource(s.name).Apply(ctx, ApplyConfigurationFrom(obj), opts...)
}

// newObject returns a new T, which is a pointer.
func newObject[T Object]() T { return reflect.New(reflect.TypeFor[T]().Elem()).Interface().(T) }

// orNil returns obj, or nil after an error.
func orNil[T Object](obj T, err error) (T, error) {
	if err != nil {
		var none T
		return none, err
	}
	return obj, nil
}

// empty returns an object in which at most the kind is set.
func (h *Handle[T]) empty() (obj T, err error) {
	gvk, err := h.kind()
	if err != nil {
		return obj, err
	}
	obj = newObject[T]()
	if formOf(obj) != typed {
		obj.GetObjectKind().SetGroupVersionKind(gvk)
	}
	return obj, nil
}

// object returns an empty object of a key.
func (h *Handle[T]) object(key ObjectKey) (T, error) {
	obj, err := h.empty()
	if err != nil {
		return obj, err
	}
	obj.SetName(key.Name)
	obj.SetNamespace(key.Namespace)
	return obj, h.adopt(obj)
}

// adopt sets the namespace of the handle in an object, and its kind if necessary.
func (h *Handle[T]) adopt(obj T) error {
	gvk, err := h.kind()
	if err != nil {
		return err
	}
	if isNil(obj) {
		return fmt.Errorf("%s: the object is nil", gvk.Kind)
	}
	if formOf(obj) != typed && obj.GetObjectKind().GroupVersionKind().Empty() {
		obj.GetObjectKind().SetGroupVersionKind(gvk)
	}
	switch {
	case h.namespace == "" || obj.GetNamespace() == h.namespace:
	case obj.GetNamespace() == "":
		obj.SetNamespace(h.namespace)
	default:
		return h.elsewhere(obj.GetNamespace())
	}
	return nil
}

func (h *Handle[T]) elsewhere(namespace string) error {
	return fmt.Errorf("namespace %q: the handle is restricted to namespace %q", namespace, h.namespace)
}

// emptyList returns a list for objects of the kind.
func (h *Handle[T]) emptyList() (ObjectList, error) {
	gvk, err := h.kind()
	if err != nil {
		return nil, err
	}
	gvk.Kind += "List"
	var list ObjectList
	switch formOf(newObject[T]()) {
	case metadata:
		list = &metav1.PartialObjectMetadataList{}
	case unstructured:
		list = &unstructuredv1.UnstructuredList{}
	default:
		made, err := h.client.Scheme().New(gvk)
		if err != nil {
			return nil, err
		}
		list, ok := made.(ObjectList)
		if !ok {
			return nil, fmt.Errorf("list %s: %T is not a list type", gvk.Kind, made)
		}
		return list, nil
	}
	list.GetObjectKind().SetGroupVersionKind(gvk)
	return list, nil
}

// list reads a list.
func (h *Handle[T]) list(ctx context.Context, opts []ListOption) (ObjectList, error) {
	list, err := h.emptyList()
	if err != nil {
		return nil, err
	}
	o, err := h.listOptions(opts)
	if err != nil {
		return nil, err
	}
	return list, h.client.List(ctx, list, o)
}

// listOptions returns the options with the namespace of the handle.
func (h *Handle[T]) listOptions(opts []ListOption) (*ListOptions, error) {
	o := &ListOptions{Namespace: h.namespace}
	o.ApplyOptions(opts)
	if h.namespace != "" && o.Namespace != h.namespace {
		return nil, h.elsewhere(o.Namespace)
	}
	return o, nil
}

// items returns the items of a list, as they are: no copies.
func items[T Object](list ObjectList) ([]T, error) {
	all := make([]T, 0, meta.LenList(list))
	err := meta.EachListItem(list, func(item runtime.Object) error {
		obj, ok := item.(T)
		if !ok {
			return fmt.Errorf("list of %T: an item is a %T", *new(T), item)
		}
		all = append(all, obj)
		return nil
	})
	return all, err
}
