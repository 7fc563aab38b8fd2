package convert

import (
	"fmt"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// other converts objects that are not versions of a kind: lists, and types without versions.
func (c *Converter) other(obj runtime.Object, target runtime.GroupVersioner) (runtime.Object, error) {
	if unversioned, known := c.scheme.IsUnversioned(obj); known && unversioned {
		return obj.DeepCopyObject(), nil
	}
	if meta.IsListType(obj) {
		items, err := meta.GetItemsPtr(obj)
		if err != nil {
			return nil, err
		}
		switch item := reflect.TypeOf(items).Elem().Elem(); {
		case c.kinds[item] != nil:
			return c.list(obj, reflect.ValueOf(items).Elem(), target)
		case item.Kind() == reflect.Interface || item == reflect.TypeFor[runtime.RawExtension]():
			return c.mixed(obj, target)
		}
	}
	return c.only(obj, target)
}

// only copies an object of a type without spokes. It is of all versions for which the scheme has
// the type.
func (c *Converter) only(obj runtime.Object, target runtime.GroupVersioner) (runtime.Object, error) {
	gvks := c.Versions(obj)
	if len(gvks) == 0 {
		return nil, fmt.Errorf("%w: %T", ErrUnknown, obj)
	}
	gvk, ok := target.KindForGroupVersionKinds(gvks)
	if !ok || !slices.Contains(gvks, gvk) {
		return nil, unknownVersion(gvks, target)
	}
	out := obj.DeepCopyObject()
	out.GetObjectKind().SetGroupVersionKind(gvk)
	return out, nil
}

// list converts a list, item by item.
func (c *Converter) list(obj runtime.Object, items reflect.Value, target runtime.GroupVersioner) (runtime.Object, error) {
	k := c.kinds[items.Type().Elem()]
	var gvks []schema.GroupVersionKind
	name := c.kindOf(obj)
	for _, v := range k.versions {
		for _, gvk := range v.gvks {
			if t := c.types[gvk.GroupVersion().WithKind(name)]; t != nil && gvk.Version != runtime.APIVersionInternal {
				gvks = append(gvks, gvk.GroupVersion().WithKind(name))
			}
		}
	}
	gvk, ok := target.KindForGroupVersionKinds(gvks)
	if !ok || c.types[gvk] == nil {
		return nil, unknownVersion(gvks, target)
	}
	result := reflect.New(c.types[gvk]).Interface().(runtime.Object)
	into, err := meta.GetItemsPtr(result)
	if err != nil {
		return nil, err
	}
	to := reflect.ValueOf(into).Elem()
	if c.kinds[to.Type().Elem()] != k {
		return nil, unknownVersion(gvks, target)
	}
	if !items.IsNil() {
		to.Set(reflect.MakeSlice(to.Type(), items.Len(), items.Len()))
	}
	for i := range items.Len() {
		if err := k.convert(items.Index(i), to.Index(i)); err != nil {
			return nil, at(fmt.Sprintf("items[%d]", i), err)
		}
	}
	if err := copyListMeta(obj, result); err != nil {
		return nil, err
	}
	result.GetObjectKind().SetGroupVersionKind(gvk)
	return result, nil
}

// mixed converts the items of a list of any types.
func (c *Converter) mixed(obj runtime.Object, target runtime.GroupVersioner) (runtime.Object, error) {
	items, err := meta.ExtractList(obj)
	if err != nil {
		return nil, fmt.Errorf("%w: %T: %w", ErrUnknown, obj, err)
	}
	for i := range items {
		if items[i], err = c.ConvertToVersion(items[i], target); err != nil {
			return nil, at(fmt.Sprintf("items[%d]", i), err)
		}
	}
	result := obj.DeepCopyObject()
	if err := meta.SetList(result, items); err != nil {
		return nil, fmt.Errorf("%w: %T: %w", ErrUnknown, obj, err)
	}
	return result, nil
}

func copyListMeta(from, to runtime.Object) error {
	was, err := meta.ListAccessor(from)
	if err != nil {
		return err
	}
	is, err := meta.ListAccessor(to)
	if err != nil {
		return err
	}
	is.SetResourceVersion(was.GetResourceVersion())
	is.SetContinue(was.GetContinue())
	is.SetSelfLink(was.GetSelfLink())
	if n := was.GetRemainingItemCount(); n != nil {
		remaining := *n
		is.SetRemainingItemCount(&remaining)
	}
	return nil
}
