package client

import (
	"context"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// NewNamespacedClient returns a client for the objects of one namespace and for cluster-scoped
// kinds. Objects, keys and lists without a namespace get this one; another namespace is an error.
func NewNamespacedClient(c Client, namespace string) Client {
	return &namespaced{Client: c, namespace: namespace}
}

type namespaced struct {
	Client
	namespace string
}

// elsewhere returns the error for another namespace.
func (n *namespaced) elsewhere(namespace string) error {
	return fmt.Errorf("namespace %q: the client is restricted to namespace %q", namespace, n.namespace)
}

// place returns the namespace for a scope: that of the client, or "" for cluster-scoped kinds.
func (n *namespaced) place(isNamespaced bool, namespace string) (string, error) {
	switch {
	case !isNamespaced || namespace == n.namespace:
		return namespace, nil
	case namespace != "":
		return "", n.elsewhere(namespace)
	}
	return n.namespace, nil
}

// adopt sets the namespace of an object.
func (n *namespaced) adopt(obj Object) error {
	is, err := n.IsObjectNamespaced(obj)
	if err != nil {
		return fmt.Errorf("scope of %T: %w", obj, err)
	}
	namespace, err := n.place(is, obj.GetNamespace())
	if err == nil && namespace != obj.GetNamespace() {
		obj.SetNamespace(namespace)
	}
	return err
}

// adoptApply sets the namespace of an apply configuration.
func (n *namespaced) adoptApply(obj runtime.ApplyConfiguration) error {
	gvk, key, err := applied(n.Client, obj)
	if err != nil {
		return err
	}
	if o, ok := obj.(objectConfiguration); ok {
		return n.adopt(o.Object)
	}
	is, err := n.isNamespaced(gvk)
	if err != nil {
		return err
	}
	namespace, err := n.place(is, key.Namespace)
	if err != nil || namespace == key.Namespace {
		return err
	}
	set := reflect.ValueOf(obj).MethodByName("WithNamespace") // of generated configurations; it returns the configuration
	if !set.IsValid() || set.Type().NumIn() != 1 || set.Type().In(0).Kind() != reflect.String {
		return fmt.Errorf("apply: %T has no namespace, and no method to set it", obj)
	}
	set.Call([]reflect.Value{reflect.ValueOf(namespace)})
	return nil
}

func (n *namespaced) isNamespaced(gvk schema.GroupVersionKind) (bool, error) {
	mapping, err := n.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return false, fmt.Errorf("scope of %s: %w", gvk.Kind, err)
	}
	return mapping.Scope.Name() != meta.RESTScopeNameRoot, nil
}

func (n *namespaced) Get(ctx context.Context, key ObjectKey, obj Object, opts ...GetOption) error {
	is, err := n.IsObjectNamespaced(obj)
	if err != nil {
		return fmt.Errorf("scope of %T: %w", obj, err)
	}
	if key.Namespace, err = n.place(is, key.Namespace); err != nil {
		return err
	}
	return n.Client.Get(ctx, key, obj, opts...)
}

func (n *namespaced) List(ctx context.Context, list ObjectList, opts ...ListOption) error {
	gvk, err := n.GroupVersionKindFor(list)
	if err != nil {
		return err
	}
	is, err := n.isNamespaced(itemKind(gvk, list))
	if err != nil {
		return err
	}
	o := new(ListOptions).ApplyOptions(opts)
	if o.Namespace, err = n.place(is, o.Namespace); err != nil {
		return err
	}
	return n.Client.List(ctx, list, o)
}

func (n *namespaced) Create(ctx context.Context, obj Object, opts ...CreateOption) error {
	if err := n.adopt(obj); err != nil {
		return err
	}
	return n.Client.Create(ctx, obj, opts...)
}

func (n *namespaced) Update(ctx context.Context, obj Object, opts ...UpdateOption) error {
	if err := n.adopt(obj); err != nil {
		return err
	}
	return n.Client.Update(ctx, obj, opts...)
}

func (n *namespaced) Patch(ctx context.Context, obj Object, patch Patch, opts ...PatchOption) error {
	if err := n.adopt(obj); err != nil {
		return err
	}
	return n.Client.Patch(ctx, obj, patch, opts...)
}

func (n *namespaced) Apply(ctx context.Context, obj runtime.ApplyConfiguration, opts ...ApplyOption) error {
	if err := n.adoptApply(obj); err != nil {
		return err
	}
	return n.Client.Apply(ctx, obj, opts...)
}

func (n *namespaced) Delete(ctx context.Context, obj Object, opts ...DeleteOption) error {
	if err := n.adopt(obj); err != nil {
		return err
	}
	return n.Client.Delete(ctx, obj, opts...)
}

func (n *namespaced) DeleteAllOf(ctx context.Context, obj Object, opts ...DeleteAllOfOption) error {
	is, err := n.IsObjectNamespaced(obj)
	if err != nil {
		return fmt.Errorf("scope of %T: %w", obj, err)
	}
	o := new(DeleteAllOfOptions).ApplyOptions(opts)
	if o.Namespace, err = n.place(is, o.Namespace); err != nil {
		return err
	}
	return n.Client.DeleteAllOf(ctx, obj, o)
}

func (n *namespaced) Status() StatusWriter { return n.SubResource("status") }

func (n *namespaced) SubResource(name string) SubResourceClient {
	return namespacedSub{n.Client.SubResource(name), n}
}

type namespacedSub struct {
	SubResourceClient
	of *namespaced
}

func (s namespacedSub) Get(ctx context.Context, obj, sub Object, opts ...SubResourceGetOption) error {
	if err := s.of.adopt(obj); err != nil {
		return err
	}
	return s.SubResourceClient.Get(ctx, obj, sub, opts...)
}

func (s namespacedSub) Create(ctx context.Context, obj, sub Object, opts ...SubResourceCreateOption) error {
	if err := s.of.adopt(obj); err != nil {
		return err
	}
	return s.SubResourceClient.Create(ctx, obj, sub, opts...)
}

func (s namespacedSub) Update(ctx context.Context, obj Object, opts ...SubResourceUpdateOption) error {
	if err := s.of.adopt(obj); err != nil {
		return err
	}
	return s.SubResourceClient.Update(ctx, obj, opts...)
}

func (s namespacedSub) Patch(ctx context.Context, obj Object, patch Patch, opts ...SubResourcePatchOption) error {
	if err := s.of.adopt(obj); err != nil {
		return err
	}
	return s.SubResourceClient.Patch(ctx, obj, patch, opts...)
}

func (s namespacedSub) Apply(ctx context.Context, obj runtime.ApplyConfiguration, opts ...SubResourceApplyOption) error {
	if err := s.of.adoptApply(obj); err != nil {
		return err
	}
	return s.SubResourceClient.Apply(ctx, obj, opts...)
}
