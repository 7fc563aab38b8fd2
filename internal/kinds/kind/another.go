package kind

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"time"

	"github.com/kapok-dev/kapok/client/typed"
	"github.com/kapok-dev/kapok/convert"
	"github.com/kapok-dev/kapok/internal/resource"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/endpoints/deprecation"
)

// Versioning has the types, conversions and defaults of all kinds. It is passed to the rows, so
// that packages of groups do not import each other.
type Versioning struct {
	Scheme    func() *runtime.Scheme
	Converter func() (*convert.Converter, error)
	// Fill applies the defaults of an object's version.
	Fill func(obj any)
}

// Another is a further version of the kind of P. Its objects have a Go type and defaults of their
// own; validation and table cells convert them to P first.
type Another[P runtime.Object] struct {
	Gv      schema.GroupVersion
	Version func(k Kind[P], all Versioning, stored *resource.Version, views []Subresource[P]) *resource.Version
}

// In returns a version in which objects of the kind of P have the type R.
func In[P, R runtime.Object](gv schema.GroupVersion) Another[P] {
	return Another[P]{gv, func(k Kind[P], all Versioning, stored *resource.Version, views []Subresource[P]) *resource.Version {
		gvk := gv.WithKind(k.Name())
		validators := map[string]validator[R]{}
		for name, validate := range validatorsOf(k, views) {
			if validators[name] = nil; validate != nil {
				validators[name] = asStored[P, R](k, all, validate)
			}
		}
		v := *stored
		v.Name = gv.Version
		if gv.Group != k.Version.Group {
			v.Group = gv.Group
		}
		v.Model = NewModel(gvk, func(obj R) { all.Fill(obj) }, validators, k.kinds()...)
		v.Warning = deprecated[R](gvk)
		if k.Table.Cells != nil {
			v.Cells = func(obj resource.Tree, now time.Time) []any {
				converted := New[P]()
				if err := all.into(decoded[R](obj), converted); err != nil {
					return make([]any, len(stored.Columns)) // served objects have been converted before, so this does not happen
				}
				return k.Table.Cells(converted, now)
			}
		}
		return &v
	}}
}

// asStored returns a validation of objects of R that converts them to P, the type of the storage
// version, first.
func asStored[P, R runtime.Object](k Kind[P], all Versioning, validate validator[P]) validator[R] {
	stored := func(obj R) (P, error) {
		converted := New[P]()
		if err := all.into(obj, converted); err != nil {
			return converted, err
		}
		if k.Defaults != nil {
			k.Defaults(converted)
		}
		return converted, nil
	}
	return func(ctx context.Context, obj, old R) field.ErrorList {
		now, err := stored(obj)
		var before P
		if err == nil && !reflect.ValueOf(old).IsNil() {
			before, err = stored(old)
		}
		if err != nil {
			return field.ErrorList{field.InternalError(nil, err)}
		}
		return validate(ctx, now, before)
	}
}

// into converts an object to the version of the object to.
func (all Versioning) into(from, to any) error {
	c, err := all.Converter()
	if err != nil {
		return err
	}
	return c.Convert(from, to, nil)
}

// Change converts an object of a built-in kind to another version, in place.
func (all Versioning) Change(obj resource.Tree, to schema.GroupVersion) error {
	gvk := schema.FromAPIVersionAndKind(Text(obj, "apiVersion"), Text(obj, "kind"))
	from, err := all.Scheme().New(gvk)
	if err != nil {
		return fmt.Errorf("convert %s: %w", gvk, err)
	}
	if err := typed.FromTree(obj, from); err != nil {
		return fmt.Errorf("convert %s: %w", gvk, err)
	}
	c, err := all.Converter()
	if err != nil {
		return err
	}
	converted, err := c.To(from, to)
	if err != nil {
		return fmt.Errorf("convert %s: %w", gvk, err)
	}
	tree, err := typed.ToTree(converted)
	if err != nil {
		return fmt.Errorf("convert %s: %w", gvk, err)
	}
	clear(obj)
	maps.Copy(obj, tree)
	return nil
}

// deprecated returns the warning for requests in a deprecated or removed version, "" for others.
func deprecated[P runtime.Object](gvk schema.GroupVersionKind) string {
	obj := New[P]()
	obj.GetObjectKind().SetGroupVersionKind(gvk)
	return deprecation.WarningMessage(obj)
}
