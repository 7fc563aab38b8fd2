package fake

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/client"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// createAll creates the initial objects, owners before what they own.
func (f *fake) createAll(ctx context.Context, objects []client.Object) error {
	uids := map[types.UID]types.UID{} // new ones by old ones
	for left := objects; len(left) > 0; {
		var later []client.Object
		for _, obj := range left {
			if slices.ContainsFunc(left, func(o client.Object) bool { return uids[o.GetUID()] == "" && owns(o, obj) }) {
				later = append(later, obj)
				continue
			}
			if err := f.createInitial(ctx, obj.DeepCopyObject().(client.Object), uids); err != nil {
				return fmt.Errorf("%T %s: %w", obj, client.ObjectKeyFromObject(obj), err)
			}
		}
		if len(later) == len(left) {
			return fmt.Errorf("%T %s and its owners form a cycle", left[0], client.ObjectKeyFromObject(left[0]))
		}
		left = later
	}
	return nil
}

func owns(owner, obj client.Object) bool {
	return owner.GetUID() != "" &&
		slices.ContainsFunc(obj.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.UID == owner.GetUID() })
}

// createInitial creates an object with its status, and deletes it if it has a deletionTimestamp.
func (f *fake) createInitial(ctx context.Context, obj client.Object, uids map[types.UID]types.UID) error {
	uid, deleted := obj.GetUID(), obj.GetDeletionTimestamp()
	if deleted != nil && len(obj.GetFinalizers()) == 0 {
		return errors.New("an object with a deletionTimestamp must have finalizers")
	}
	owners := obj.GetOwnerReferences()
	for i := range owners {
		if now, ok := uids[owners[i].UID]; ok {
			owners[i].UID = now
		}
	}
	obj.SetOwnerReferences(owners)
	obj.SetUID("")
	obj.SetResourceVersion("")
	obj.SetGeneration(0)
	obj.SetCreationTimestamp(metav1.Time{})
	obj.SetDeletionTimestamp(nil)
	obj.SetDeletionGracePeriodSeconds(nil)
	obj.SetManagedFields(nil)

	made := obj.DeepCopyObject().(client.Object)
	err := f.Create(ctx, made)
	if apierrors.IsAlreadyExists(err) { // as the namespace default does
		made = obj.DeepCopyObject().(client.Object)
		err = f.Update(ctx, made)
	}
	if err != nil {
		return err
	}
	if uid != "" {
		uids[uid] = made.GetUID()
	}
	if err := f.giveStatus(ctx, obj, made); err != nil {
		return fmt.Errorf("status: %w", err)
	}
	if deleted != nil {
		return f.Delete(ctx, made)
	}
	return nil
}

// giveStatus writes the status of an object where the server has not taken it with the object.
func (f *fake) giveStatus(ctx context.Context, obj, made client.Object) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return err
	}
	status, ok := content["status"].(map[string]any)
	if !ok || len(status) == 0 {
		return nil
	}
	gvk, err := f.GroupVersionKindFor(obj)
	if err != nil {
		return err
	}
	u := &unstructured.Unstructured{Object: map[string]any{"status": status}}
	u.SetGroupVersionKind(gvk)
	u.SetNamespace(made.GetNamespace())
	u.SetName(made.GetName())
	body, err := u.MarshalJSON()
	if err != nil {
		return err
	}
	return client.IgnoreNotFound(f.Status().Patch(ctx, u, client.RawPatch(types.MergePatchType, body)))
}

// Create creates the namespace, if it does not exist.
func (f *fake) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	if err := f.ensureNamespace(ctx, obj.GetNamespace()); err != nil {
		return err
	}
	return f.WithWatch.Create(ctx, obj, opts...)
}

// Apply creates the namespace, if it does not exist.
func (f *fake) Apply(ctx context.Context, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	name := ""
	switch o := obj.(type) {
	case interface{ GetNamespace() string }:
		name = o.GetNamespace()
	case interface{ GetNamespace() *string }:
		if n := o.GetNamespace(); n != nil {
			name = *n
		}
	}
	if err := f.ensureNamespace(ctx, name); err != nil {
		return err
	}
	return f.WithWatch.Apply(ctx, obj, opts...)
}

func (f *fake) ensureNamespace(ctx context.Context, name string) error {
	f.mu.Lock()
	known := name == "" || f.namespaces[name]
	f.mu.Unlock()
	if known {
		return nil
	}
	namespace := &unstructured.Unstructured{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	namespace.SetName(name)
	if err := client.IgnoreAlreadyExists(f.WithWatch.Create(ctx, namespace)); err != nil {
		return fmt.Errorf("namespace %s: %w", name, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.namespaces == nil {
		f.namespaces = map[string]bool{}
	}
	f.namespaces[name] = true
	return nil
}

// List finds fields by the indices, and asks the server for others.
func (f *fake) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	o := new(client.ListOptions).ApplyOptions(opts)
	gvk, err := f.GroupVersionKindFor(list)
	if err != nil || o.FieldSelector == nil || o.FieldSelector.Empty() {
		return f.WithWatch.List(ctx, list, opts...)
	}
	gvk.Kind = strings.TrimSuffix(gvk.Kind, "List")
	indices, requirements := f.indices[gvk], o.FieldSelector.Requirements()
	for _, r := range requirements {
		if indices[r.Field] == nil {
			return f.WithWatch.List(ctx, list, opts...)
		}
	}
	whole := *o
	whole.FieldSelector, whole.Limit = nil, 0
	if err := f.WithWatch.List(ctx, list, &whole); err != nil {
		return err
	}
	all, err := meta.ExtractList(list)
	if err != nil {
		return err
	}
	found := []runtime.Object{}
	for _, item := range all {
		obj, ok := item.(client.Object)
		if !ok {
			return fmt.Errorf("items of %T have no metadata", list)
		}
		matches := true
		for _, r := range requirements {
			matches = matches && slices.Contains(indices[r.Field](obj), r.Value)
		}
		if matches && (o.Limit == 0 || int64(len(found)) < o.Limit) {
			found = append(found, item)
		}
	}
	return meta.SetList(list, found)
}
