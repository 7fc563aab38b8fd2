// Package interceptor puts functions in the place of methods of a client, as tests of failures need
// it.
//
//	failing := interceptor.NewClient(c, interceptor.Funcs{
//		Update: func(context.Context, client.WithWatch, client.Object, ...client.UpdateOption) error { return errConflict },
//	})
package interceptor

import (
	"context"

	"github.com/kapok-dev/kapok/client"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// Funcs are called instead of the methods of a client, which they get. Methods whose function is
// nil are those of the client.
//
// SubResource is called before the functions for the methods of its result, and Status is
// SubResource("status").
type Funcs struct {
	Get         func(ctx context.Context, client client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error
	List        func(ctx context.Context, client client.WithWatch, list client.ObjectList, opts ...client.ListOption) error
	Create      func(ctx context.Context, client client.WithWatch, obj client.Object, opts ...client.CreateOption) error
	Delete      func(ctx context.Context, client client.WithWatch, obj client.Object, opts ...client.DeleteOption) error
	DeleteAllOf func(ctx context.Context, client client.WithWatch, obj client.Object, opts ...client.DeleteAllOfOption) error
	Update      func(ctx context.Context, client client.WithWatch, obj client.Object, opts ...client.UpdateOption) error
	Patch       func(ctx context.Context, client client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error
	Apply       func(ctx context.Context, client client.WithWatch, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error
	Watch       func(ctx context.Context, client client.WithWatch, list client.ObjectList, opts ...client.ListOption) (watch.Interface, error)

	SubResource       func(client client.WithWatch, subResource string) client.SubResourceClient
	SubResourceGet    func(ctx context.Context, client client.Client, subResourceName string, obj, subResource client.Object, opts ...client.SubResourceGetOption) error
	SubResourceCreate func(ctx context.Context, client client.Client, subResourceName string, obj, subResource client.Object, opts ...client.SubResourceCreateOption) error
	SubResourceUpdate func(ctx context.Context, client client.Client, subResourceName string, obj client.Object, opts ...client.SubResourceUpdateOption) error
	SubResourcePatch  func(ctx context.Context, client client.Client, subResourceName string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error
	SubResourceApply  func(ctx context.Context, client client.Client, subResourceName string, obj runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error
}

// NewClient returns a client that calls the functions instead of the methods of c.
func NewClient(c client.WithWatch, funcs Funcs) client.WithWatch { return &interceptor{c, funcs} }

type interceptor struct {
	client.WithWatch
	funcs Funcs
}

// Unwrap returns the client whose methods are not called.
func (i *interceptor) Unwrap() client.WithWatch { return i.WithWatch }

func (i *interceptor) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if f := i.funcs.Get; f != nil {
		return f(ctx, i.WithWatch, key, obj, opts...)
	}
	return i.WithWatch.Get(ctx, key, obj, opts...)
}

func (i *interceptor) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if f := i.funcs.List; f != nil {
		return f(ctx, i.WithWatch, list, opts...)
	}
	return i.WithWatch.List(ctx, list, opts...)
}

func (i *interceptor) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	if f := i.funcs.Create; f != nil {
		return f(ctx, i.WithWatch, obj, opts...)
	}
	return i.WithWatch.Create(ctx, obj, opts...)
}

func (i *interceptor) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	if f := i.funcs.Delete; f != nil {
		return f(ctx, i.WithWatch, obj, opts...)
	}
	return i.WithWatch.Delete(ctx, obj, opts...)
}

func (i *interceptor) DeleteAllOf(ctx context.Context, obj client.Object, opts ...client.DeleteAllOfOption) error {
	if f := i.funcs.DeleteAllOf; f != nil {
		return f(ctx, i.WithWatch, obj, opts...)
	}
	return i.WithWatch.DeleteAllOf(ctx, obj, opts...)
}

func (i *interceptor) Update(ctx context.Context, obj client.Object, opts ...client.UpdateOption) error {
	if f := i.funcs.Update; f != nil {
		return f(ctx, i.WithWatch, obj, opts...)
	}
	return i.WithWatch.Update(ctx, obj, opts...)
}

func (i *interceptor) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	if f := i.funcs.Patch; f != nil {
		return f(ctx, i.WithWatch, obj, patch, opts...)
	}
	return i.WithWatch.Patch(ctx, obj, patch, opts...)
}

func (i *interceptor) Apply(ctx context.Context, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	if f := i.funcs.Apply; f != nil {
		return f(ctx, i.WithWatch, obj, opts...)
	}
	return i.WithWatch.Apply(ctx, obj, opts...)
}

func (i *interceptor) Watch(ctx context.Context, list client.ObjectList, opts ...client.ListOption) (watch.Interface, error) {
	if f := i.funcs.Watch; f != nil {
		return f(ctx, i.WithWatch, list, opts...)
	}
	return i.WithWatch.Watch(ctx, list, opts...)
}

func (i *interceptor) Status() client.StatusWriter { return i.SubResource("status") }

func (i *interceptor) SubResource(name string) client.SubResourceClient {
	if f := i.funcs.SubResource; f != nil {
		return f(i.WithWatch, name)
	}
	return &subResource{i.WithWatch.SubResource(name), name, i}
}

type subResource struct {
	client.SubResourceClient
	name string
	of   *interceptor
}

func (s *subResource) Get(ctx context.Context, obj, sub client.Object, opts ...client.SubResourceGetOption) error {
	if f := s.of.funcs.SubResourceGet; f != nil {
		return f(ctx, s.of.WithWatch, s.name, obj, sub, opts...)
	}
	return s.SubResourceClient.Get(ctx, obj, sub, opts...)
}

func (s *subResource) Create(ctx context.Context, obj, sub client.Object, opts ...client.SubResourceCreateOption) error {
	if f := s.of.funcs.SubResourceCreate; f != nil {
		return f(ctx, s.of.WithWatch, s.name, obj, sub, opts...)
	}
	return s.SubResourceClient.Create(ctx, obj, sub, opts...)
}

func (s *subResource) Update(ctx context.Context, obj client.Object, opts ...client.SubResourceUpdateOption) error {
	if f := s.of.funcs.SubResourceUpdate; f != nil {
		return f(ctx, s.of.WithWatch, s.name, obj, opts...)
	}
	return s.SubResourceClient.Update(ctx, obj, opts...)
}

func (s *subResource) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
	if f := s.of.funcs.SubResourcePatch; f != nil {
		return f(ctx, s.of.WithWatch, s.name, obj, patch, opts...)
	}
	return s.SubResourceClient.Patch(ctx, obj, patch, opts...)
}

func (s *subResource) Apply(ctx context.Context, obj runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
	if f := s.of.funcs.SubResourceApply; f != nil {
		return f(ctx, s.of.WithWatch, s.name, obj, opts...)
	}
	return s.SubResourceClient.Apply(ctx, obj, opts...)
}
