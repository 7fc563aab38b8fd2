package resource

import (
	"context"
	"fmt"

	"github.com/kapok-dev/kapok/internal/fields"
	"github.com/kapok-dev/kapok/internal/object"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

type fieldManagerKey struct {
	definition  *Definition
	version     *Version
	subresource string
}

// fieldManager returns the field manager for a resource in the version of the request, which is
// created on first use.
func (s *Store) fieldManager(ctx context.Context, r *Request) (*fields.Manager, error) {
	key := fieldManagerKey{r.Definition, r.Version, r.Subresource}
	known, ok := s.managers.Load(key)
	if !ok {
		m, err := newFieldManager(r)
		if err != nil {
			return nil, err
		}
		s.forget() // rare enough: a manager is made once for a definition
		known, _ = s.managers.LoadOrStore(key, m)
	}
	m := known.(*fields.Manager)
	if d := r.Definition; d.Webhook != nil && m.Convert != nil {
		own := *m // webhooks are called for a request
		own.Convert = func(obj Tree, to schema.GroupVersion) (Tree, error) { return convertFields(ctx, d, obj, to) }
		m = &own
	}
	return m, nil
}

func newFieldManager(r *Request) (*fields.Manager, error) {
	if r.Subresource == scaleSubresource {
		return newScaleManager()
	}
	types, err := r.Version.Model.FieldTypes()
	if err != nil {
		return nil, err
	}
	reset := r.Version.ResetFields
	if sub := r.Version.Subresource(r.Subresource); sub != nil {
		reset = sub.ResetFields
	}
	d, v := r.Definition, r.Version
	o := fields.Options{
		Kind:        d.GroupVersionKind(v),
		Subresource: r.Subresource,
		Type:        types,
		Convert: func(obj Tree, to schema.GroupVersion) (Tree, error) {
			return convertFields(context.Background(), d, obj, to)
		},
		New: func() Tree { return blank(v.Model) },
		Default: func(obj Tree) Tree {
			if done, err := complete(v.Model, obj); err == nil {
				return done
			}
			return obj
		},
	}
	if reset != nil {
		o.Reset = map[string]*fieldpath.Set{d.APIVersion(v): reset}
	}
	return fields.New(o)
}

// forget drops the field managers of definitions that are no longer served.
func (s *Store) forget() {
	set := s.registry.Load()
	s.managers.Range(func(key, _ any) bool {
		d := key.(fieldManagerKey).definition
		if set.Resource(d.GroupResource()) != d {
			s.managers.Delete(key)
		}
		return true
	})
}

// manageUpdate records in obj's managedFields what the request has changed compared with live,
// which is empty on create.
func (s *Store) manageUpdate(ctx context.Context, r *Request, live, obj Tree) (Tree, error) {
	m, err := s.fieldManager(ctx, r)
	if err != nil {
		return nil, err
	}
	return managed(m, typed(r, live), typed(r, obj), r.Manager), nil
}

// managed records in obj's managedFields what it changes compared with live. An object that does
// not fit its schema keeps the managedFields of live, and is rejected later.
func managed(m *fields.Manager, live, obj Tree, manager string) Tree {
	updated, err := m.Update(live, obj, manager)
	if err == nil {
		return updated
	}
	if was, _ := live["metadata"].(map[string]any); was["managedFields"] != nil {
		metadata(obj)["managedFields"] = was["managedFields"]
	}
	return obj
}

// blank returns the object that a new one is compared with: empty, except for the fields that the
// Go type of a built-in kind always encodes.
func blank(m Decoder) Tree {
	if empty := m.New(); empty != nil {
		if obj, err := runtime.DefaultUnstructuredConverter.ToUnstructured(empty); err == nil {
			return obj
		}
	}
	return Tree{}
}

// typed adds apiVersion and kind, which field management needs, to a tree.
func typed(r *Request, obj Tree) Tree {
	if _, ok := obj["apiVersion"]; !ok {
		obj["apiVersion"], obj["kind"] = r.BodyKind().ToAPIVersionAndKind()
	}
	return obj
}

// keepManagedTimes restores the old managedFields if an update has changed only their times, so
// that it does not count as a change.
func keepManagedTimes(obj, old Tree) {
	m, was := metadata(obj), metadata(old)
	fresh, _ := m["managedFields"].([]any)
	stale, _ := was["managedFields"].([]any)
	if len(fresh) == 0 || len(fresh) != len(stale) {
		return
	}
	for i := range fresh {
		if !equalBut(fresh[i], stale[i], "time") {
			return
		}
	}
	if !equalBut(m, was, "managedFields") || !equalBut(obj, old, "metadata") {
		return
	}
	m["managedFields"] = was["managedFields"]
}

// equalBut compares two maps without one key.
func equalBut(a, b any, key string) bool {
	x, ok := a.(map[string]any)
	y, ok2 := b.(map[string]any)
	if !ok || !ok2 {
		return object.Equal(a, b)
	}
	n := 0
	for k, v := range x {
		if k == key {
			continue
		}
		w, ok := y[k]
		if !ok || !object.Equal(v, w) {
			return false
		}
		n++
	}
	for k := range y {
		if k != key {
			n--
		}
	}
	return n == 0
}

// convertFields converts an object to a version that managedFields name.
func convertFields(ctx context.Context, d *Definition, obj Tree, to schema.GroupVersion) (Tree, error) {
	from, err := schema.ParseGroupVersion(unstructuredString(obj, "apiVersion"))
	if err != nil {
		return nil, err
	}
	source, target := d.AnyVersion(from), d.AnyVersion(to)
	switch {
	case (source == nil || target == nil) && from.Group != to.Group:
		return nil, fmt.Errorf("%v is not suitable for converting to %q", from.WithKind(d.Kind), to)
	case d.Custom && source == nil:
		return nil, fmt.Errorf("request to convert CR from an invalid group/version: %s", from)
	case d.Custom && target == nil:
		// A version that the definition has lost. kube-apiserver does not drop such managers, as it does
		// those of built-in kinds (below): applies fail, other writes leave managedFields as they are.
		return nil, fmt.Errorf("request to convert CR to an invalid group/version: %s", to)
	case source == nil || target == nil:
		return nil, runtime.NewNotRegisteredErrForKind("", to.WithKind(d.Kind))
	}
	obj, err = convert(ctx, d, runtime.DeepCopyJSON(obj), source, target)
	if err != nil || d.Custom {
		// A field that the other version does not have is an error here, as in Kubernetes.
		return obj, err
	}
	return target.Model.Prune(obj)
}

// managedFieldsOf decodes the managedFields of a tree.
func managedFieldsOf(obj Tree) []metav1.ManagedFieldsEntry { return accessor(obj).GetManagedFields() }
