package resource

import (
	"fmt"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

type fieldManagerKey struct {
	definition  *Definition
	version     *Version
	subresource string
}

// fieldManager returns what keeps managedFields for a resource in the version of
// the request. It is made on first use.
func (s *Store) fieldManager(r *Request) (*managedfields.FieldManager, error) {
	key := fieldManagerKey{r.Definition, r.Version, r.Subresource}
	if m, ok := s.managers.Load(key); ok {
		return m.(*managedfields.FieldManager), nil
	}
	m, err := newFieldManager(r)
	if err != nil {
		return nil, err
	}
	s.forget() // rare enough: a manager is made once for a definition
	actual, _ := s.managers.LoadOrStore(key, m)
	return actual.(*managedfields.FieldManager), nil
}

func newFieldManager(r *Request) (*managedfields.FieldManager, error) {
	if r.Subresource == scaleSubresource {
		return newScaleManager()
	}
	types, err := r.Version.Model.TypeConverter()
	if err != nil {
		return nil, err
	}
	reset := r.Version.ResetFields
	if sub := r.Version.Subresource(r.Subresource); sub != nil {
		reset = sub.ResetFields
	}
	var filters map[fieldpath.APIVersion]fieldpath.Filter
	if reset != nil {
		filters = fieldpath.NewExcludeFilterSetMap(map[fieldpath.APIVersion]*fieldpath.Set{
			fieldpath.APIVersion(r.Definition.APIVersion(r.Version)): reset,
		})
	}
	c := converter{r.Definition}
	gvk := r.Definition.GroupVersionKind(r.Version)
	build := managedfields.NewDefaultFieldManager
	if r.Definition.Custom {
		build = managedfields.NewDefaultCRDFieldManager
	}
	return build(types, c, c, c, gvk, gvk.GroupVersion(), r.Subresource, filters)
}

// forget drops what was made for definitions that are no longer served.
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

// manageUpdate notes in obj's managedFields what the request has changed against
// live, which is empty on create.
func (s *Store) manageUpdate(r *Request, live, obj Tree) (Tree, error) {
	m, err := s.fieldManager(r)
	if err != nil {
		return nil, err
	}
	return managed(m, typed(r, live), typed(r, obj), r.Manager), nil
}

// managed is FieldManager.UpdateNoErrors, which would log what is the client's
// mistake: an object that does not fit its schema keeps the managedFields that it
// had, and is refused later.
func managed(m *managedfields.FieldManager, live, obj *unstructured.Unstructured, manager string) Tree {
	updated, err := m.Update(live, obj, manager)
	if err != nil {
		obj.SetManagedFields(live.GetManagedFields())
		return obj.Object
	}
	return updated.(*unstructured.Unstructured).Object
}

// blank is what a new object is compared with: nothing, but for what the Go type
// of a built-in kind always shows.
func blank(m Model) Tree {
	if empty := m.New(); empty != nil {
		if obj, err := runtime.DefaultUnstructuredConverter.ToUnstructured(empty); err == nil {
			return obj
		}
	}
	return Tree{}
}

// typed wraps a tree as the field manager wants to see it: with apiVersion and kind.
func typed(r *Request, obj Tree) *unstructured.Unstructured {
	if _, ok := obj["apiVersion"]; !ok {
		obj["apiVersion"], obj["kind"] = r.bodyKind().ToAPIVersionAndKind()
	}
	return &unstructured.Unstructured{Object: obj}
}

// keepManagedTimes puts back the old managedFields where an update has changed
// nothing else than their times, so that it does not count as a change.
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

// equalBut compares two maps but for one key.
func equalBut(a, b any, key string) bool {
	x, ok := a.(map[string]any)
	y, ok2 := b.(map[string]any)
	if !ok || !ok2 {
		return reflect.DeepEqual(a, b)
	}
	n := 0
	for k, v := range x {
		if k == key {
			continue
		}
		w, ok := y[k]
		if !ok || !reflect.DeepEqual(v, w) {
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

// converter is a Definition in the roles that field management asks for.
type converter struct{ definition *Definition }

// New implements runtime.ObjectCreater.
func (c converter) New(gvk schema.GroupVersionKind) (runtime.Object, error) {
	u := &unstructured.Unstructured{Object: Tree{}}
	if v := c.definition.anyVersion(gvk.Version); v != nil {
		u.Object = blank(v.Model)
	}
	u.SetGroupVersionKind(gvk)
	return u, nil
}

// Default implements runtime.ObjectDefaulter.
func (c converter) Default(in runtime.Object) {
	u, ok := in.(*unstructured.Unstructured)
	if !ok {
		return
	}
	v := c.definition.anyVersion(u.GroupVersionKind().Version)
	if v == nil {
		return
	}
	if obj, err := v.Model.Normalise(u.Object, nil); err == nil {
		u.Object = obj
	}
}

// ConvertToVersion implements runtime.ObjectConvertor.
func (c converter) ConvertToVersion(in runtime.Object, target runtime.GroupVersioner) (runtime.Object, error) {
	u, ok := in.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("unexpected type %T", in)
	}
	from := u.GroupVersionKind()
	gvk, ok := target.KindForGroupVersionKinds([]schema.GroupVersionKind{from})
	if !ok {
		return nil, fmt.Errorf("%v is not suitable for converting to %q", from, target)
	}
	if from.Version == gvk.Version {
		return in, nil
	}
	source, to := c.definition.anyVersion(from.Version), c.definition.anyVersion(gvk.Version)
	if source == nil || to == nil {
		return nil, runtime.NewNotRegisteredErrForKind("", gvk)
	}
	obj, err := convert(c.definition, runtime.DeepCopyJSON(u.Object), source, to)
	if err != nil {
		return nil, err
	}
	if obj, err = to.Model.Prune(obj); err != nil {
		return nil, err
	}
	return &unstructured.Unstructured{Object: obj}, nil
}

// Convert implements runtime.ObjectConvertor; nobody calls it.
func (c converter) Convert(in, out, _ any) error {
	return fmt.Errorf("cannot convert %T to %T", in, out)
}

// ConvertFieldLabel implements runtime.ObjectConvertor; nobody calls it.
func (c converter) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

// managedFieldsOf decodes the managedFields of a tree.
func managedFieldsOf(obj Tree) []metav1.ManagedFieldsEntry { return accessor(obj).GetManagedFields() }
