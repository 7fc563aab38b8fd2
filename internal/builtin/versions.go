package builtin

import (
	"fmt"
	"maps"
	"time"

	"github.com/kapok-dev/kapok/internal/builtin/defaults"
	"github.com/kapok-dev/kapok/internal/builtin/versions"
	"github.com/kapok-dev/kapok/internal/resource"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/endpoints/deprecation"
)

// another is a version besides that of the kind of T. Its objects have a Go type
// and defaults of their own; for everything else they are looked at as a T.
type another[T any] struct {
	gv      schema.GroupVersion
	version func(k kind[T], stored *resource.Version, views []subresource[T]) *resource.Version
}

// in is a version in which objects of the kind of T are of R.
func in[T, R any](gv schema.GroupVersion) another[T] {
	return another[T]{gv, func(k kind[T], stored *resource.Version, views []subresource[T]) *resource.Version {
		gvk := gv.WithKind(k.name())
		var subresources []subresource[R]
		for _, s := range views {
			subresources = append(subresources, subresource[R]{Subresource: s.Subresource, validate: asStored[T, R](k, s.validate)})
		}
		v := *stored
		v.Name = gv.Version
		if gv.Group != k.version.Group {
			v.Group = gv.Group
		}
		v.Model = newModel(gvk, fill[R], asStored[T, R](k, k.validate), subresources, k.kinds()...)
		v.Warning = deprecated[R](gvk)
		if k.table.Cells != nil {
			v.Cells = func(obj resource.Tree, now time.Time) []any {
				t := new(T)
				if err := into(decoded[R](obj), t); err != nil {
					return make([]any, len(stored.Columns)) // what is served has been converted before
				}
				return k.table.Cells(t, now)
			}
		}
		return &v
	}}
}

func fill[R any](obj *R) { defaults.Fill(obj) }

// asStored has objects of another version judged as those of the one that is stored.
func asStored[T, R any](k kind[T], validate func(obj, old *T) field.ErrorList) func(obj, old *R) field.ErrorList {
	if validate == nil {
		return nil
	}
	return func(obj, old *R) field.ErrorList {
		now, before := new(T), (*T)(nil)
		err := into(obj, now)
		if old != nil && err == nil {
			before = new(T)
			err = into(old, before)
		}
		if err != nil {
			return field.ErrorList{field.InternalError(nil, err)}
		}
		for _, t := range []*T{now, before} {
			if t != nil && k.defaults != nil {
				k.defaults(t)
			}
		}
		return validate(now, before)
	}
}

// into converts an object to the version of another.
func into(from, to any) error {
	c, err := versions.Converter()
	if err != nil {
		return err
	}
	return c.Convert(from, to, nil)
}

// convert brings an object of a built-in kind to another version, in place.
func convert(obj resource.Tree, to schema.GroupVersion) error {
	gvk := schema.FromAPIVersionAndKind(text(obj, "apiVersion"), text(obj, "kind"))
	from, err := versions.Scheme().New(gvk)
	if err != nil {
		return fmt.Errorf("convert %s: %w", gvk, err)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj, from); err != nil {
		return fmt.Errorf("convert %s: %w", gvk, err)
	}
	c, err := versions.Converter()
	if err != nil {
		return err
	}
	converted, err := c.To(from, to)
	if err != nil {
		return fmt.Errorf("convert %s: %w", gvk, err)
	}
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(converted)
	if err != nil {
		return fmt.Errorf("convert %s: %w", gvk, err)
	}
	clear(obj)
	maps.Copy(obj, tree)
	return nil
}

// deprecated is what clients are told of a version that is on its way out, or gone.
func deprecated[T any](gvk schema.GroupVersionKind) string {
	obj, ok := any(new(T)).(runtime.Object)
	if !ok {
		return ""
	}
	obj.GetObjectKind().SetGroupVersionKind(gvk)
	return deprecation.WarningMessage(obj)
}
