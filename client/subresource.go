package client

import (
	"context"
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func (c *client) Status() StatusWriter { return c.SubResource("status") }

func (c *client) SubResource(name string) SubResourceClient { return subResource{c, name} }

// A subResource is a subresource of objects of any kind. A write of it is one of its object if the
// answer has the resourceVersion of the object, as status and scale do.
type subResource struct {
	client *client
	name   string
}

func (s subResource) Get(ctx context.Context, obj Object, sub Object, opts ...SubResourceGetOption) error {
	gvk, err := s.client.GroupVersionKindFor(obj)
	if err != nil {
		return err
	}
	subGVK, err := s.client.GroupVersionKindFor(sub)
	if err != nil {
		return err
	}
	o := new(GetOptions).ApplyOptions(opts)
	r := s.client.one(ctx, http.MethodGet, gvk, ObjectKeyFromObject(obj)).subresource(s.name, obj)
	return r.params(o.AsGetOptions()).decodeAs(subGVK).do(ctx, sub)
}

func (s subResource) Create(ctx context.Context, obj Object, sub Object, opts ...SubResourceCreateOption) error {
	gvk, err := s.client.GroupVersionKindFor(obj)
	if err != nil {
		return err
	}
	subGVK, err := s.client.writable(sub)
	if err != nil {
		return err
	}
	name(sub, obj)
	o := s.client.writeOptions(opts)
	r := s.client.one(ctx, http.MethodPost, gvk, ObjectKeyFromObject(obj)).subresource(s.name, obj)
	return r.params(o.AsCreateOptions()).body(sub, subGVK).decodeAs(subGVK).doOrStatus(ctx, sub)
}

func (s subResource) Update(ctx context.Context, obj Object, opts ...SubResourceUpdateOption) error {
	gvk, err := s.client.GroupVersionKindFor(obj)
	if err != nil {
		return err
	}
	o := s.client.writeOptions(opts)
	body, bodyGVK, err := s.body(obj, o)
	if err != nil {
		return err
	}
	r := s.client.one(ctx, http.MethodPut, gvk, ObjectKeyFromObject(obj)).subresource(s.name, obj)
	if err := r.params(o.AsUpdateOptions()).body(body, bodyGVK).decodeAs(bodyGVK).do(ctx, body); err != nil {
		return err
	}
	s.client.wrote(gvk, body, bodyGVK, o)
	return nil
}

func (s subResource) Patch(ctx context.Context, obj Object, patch Patch, opts ...SubResourcePatchOption) error {
	gvk, err := s.client.GroupVersionKindFor(obj)
	if err != nil {
		return err
	}
	o := s.client.writeOptions(opts)
	body, bodyGVK := obj, gvk
	if o.SubResourceBody != nil {
		if body, bodyGVK, err = s.body(obj, o); err != nil {
			return err
		}
	}
	r := s.client.one(ctx, http.MethodPatch, gvk, ObjectKeyFromObject(obj)).subresource(s.name, obj)
	if err := r.params(o.AsPatchOptions()).patch(patch, body, bodyGVK).decodeAs(bodyGVK).do(ctx, body); err != nil {
		return err
	}
	s.client.wrote(gvk, body, bodyGVK, o)
	return nil
}

func (s subResource) Apply(ctx context.Context, obj runtime.ApplyConfiguration, opts ...SubResourceApplyOption) error {
	return s.client.apply(ctx, obj, s.name, opts)
}

// body returns the body of a request to the subresource of obj, and its kind.
func (s subResource) body(obj Object, o *WriteOptions) (Object, schema.GroupVersionKind, error) {
	if o.SubResourceBody == nil {
		gvk, err := s.client.writable(obj)
		return obj, gvk, err
	}
	gvk, err := s.client.writable(o.SubResourceBody)
	if err != nil {
		return nil, gvk, fmt.Errorf("body for subresource %s: %w", s.name, err)
	}
	name(o.SubResourceBody, obj)
	return o.SubResourceBody, gvk, nil
}

// name gives a subresource the name and the namespace of its object, unless it has them.
func name(sub, obj Object) {
	if sub.GetName() == "" {
		sub.SetName(obj.GetName())
	}
	if sub.GetNamespace() == "" {
		sub.SetNamespace(obj.GetNamespace())
	}
}
