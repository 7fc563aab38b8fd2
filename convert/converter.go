package convert

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ErrUnknown is wrapped by errors for objects and versions that are not registered. Errors of
// functions are wrapped with the path of the field.
var ErrUnknown = errors.New("not known to the converter")

// A Converter converts objects between versions.
type Converter struct {
	scheme *runtime.Scheme
	types  map[schema.GroupVersionKind]reflect.Type // those of the scheme
	labels map[reflect.Type]LabelFunc
	kinds  map[reflect.Type]*kind // by version
}

// A kind is a hub and its versions.
type kind struct {
	hub      reflect.Type
	versions []*version
}

// version is a Go type of one or several versions of the kind: those for which the scheme has it.
type version struct {
	goType   reflect.Type
	gvks     []schema.GroupVersionKind
	to, from *program
}

var _ runtime.ObjectConvertor = (*Converter)(nil)

// New compiles rules. All types of spokes must be registered in the scheme, which must not change
// afterwards. The error names every field that a conversion would lose.
func New(scheme *runtime.Scheme, all ...Rule) (*Converter, error) {
	compiler := newCompiler(all)
	c := &Converter{scheme: scheme, types: scheme.AllKnownTypes(), labels: compiler.labels, kinds: map[reflect.Type]*kind{}}
	hubs := map[reflect.Type]*kind{}
	var errs []error
	for _, s := range compiler.spokes {
		k := hubs[s.hub]
		if k == nil {
			k = &kind{hub: s.hub}
			hubs[s.hub] = k
			if len(c.gvks(s.hub)) > 0 && !slices.Contains(compiler.spokes, spoke{s.hub, s.hub}) {
				errs = append(errs, c.add(k, s.hub, compiler))
			}
		}
		errs = append(errs, c.add(k, s.version, compiler))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return c, nil
}

// add adds a version to a kind.
func (c *Converter) add(k *kind, t reflect.Type, compiler *compiler) error {
	v := &version{goType: t, gvks: c.gvks(t)}
	if len(v.gvks) == 0 {
		return fmt.Errorf("%v is not known to the scheme", t)
	}
	if c.kinds[t] != nil {
		return fmt.Errorf("%v is registered twice", t)
	}
	var toErr, fromErr error
	v.to, toErr = compiler.compile(t, k.hub)
	v.from, fromErr = compiler.compile(k.hub, t)
	k.versions = append(k.versions, v)
	c.kinds[t] = k
	return errors.Join(toErr, fromErr)
}

// gvks returns the versions for which the scheme has a type.
func (c *Converter) gvks(t reflect.Type) []schema.GroupVersionKind {
	obj, ok := reflect.New(t).Interface().(runtime.Object)
	if !ok {
		return nil
	}
	gvks, _, err := c.scheme.ObjectKinds(obj)
	if err != nil {
		return nil
	}
	return gvks
}

// To returns the object in another version, the preferred one if target is empty. The group may
// differ, if the kind has moved.
func (c *Converter) To(obj runtime.Object, target schema.GroupVersion) (runtime.Object, error) {
	if target.Empty() {
		return c.ConvertToVersion(obj, preferred{c})
	}
	return c.ConvertToVersion(obj, target)
}

// ConvertToVersion converts to the version that a GroupVersioner selects.
func (c *Converter) ConvertToVersion(obj runtime.Object, target runtime.GroupVersioner) (runtime.Object, error) {
	in := reflect.ValueOf(obj)
	if in.Kind() != reflect.Pointer || in.IsNil() {
		return nil, fmt.Errorf("%w: %T is not an object", ErrUnknown, obj)
	}
	k := c.kinds[in.Type().Elem()]
	if k == nil {
		return c.other(obj, target)
	}
	gvks := k.gvks(c.kindOf(obj))
	gvk, ok := target.KindForGroupVersionKinds(gvks)
	to := k.version(gvk)
	if !ok || to == nil {
		return nil, unknownVersion(gvks, target)
	}
	out := reflect.New(to.goType)
	if err := k.convert(in.Elem(), out.Elem()); err != nil {
		return nil, err
	}
	result := out.Interface().(runtime.Object)
	result.GetObjectKind().SetGroupVersionKind(gvk)
	return result, nil
}

// Convert converts an object into another one. Both are pointers. The type of out selects the
// version, and its type meta is kept. It implements [runtime.ObjectConvertor]; the last argument is
// ignored.
func (c *Converter) Convert(in, out, _ any) error {
	from, to := reflect.ValueOf(in), reflect.ValueOf(out)
	if from.Kind() != reflect.Pointer || to.Kind() != reflect.Pointer || from.IsNil() || to.IsNil() {
		return fmt.Errorf("%w: conversion of %T to %T", ErrUnknown, in, out)
	}
	k := c.kinds[from.Type().Elem()]
	if k == nil || k != c.kinds[to.Type().Elem()] {
		return fmt.Errorf("%w: conversion of %T to %T", ErrUnknown, in, out)
	}
	result := reflect.New(to.Type().Elem())
	if err := k.convert(from.Elem(), result.Elem()); err != nil {
		return err
	}
	kind := out.(runtime.Object).GetObjectKind()
	gvk := kind.GroupVersionKind()
	to.Elem().Set(result.Elem())
	kind.SetGroupVersionKind(gvk)
	return nil
}

// convert converts through the hub.
func (k *kind) convert(in, out reflect.Value) error {
	hub := reflect.New(k.hub).Elem()
	if err := k.of(in.Type()).to.run(in, hub); err != nil {
		return err
	}
	return k.of(out.Type()).from.run(hub, out)
}

// kindOf returns the kind in the type meta of an object, or else the first one that the scheme has
// for its type.
func (c *Converter) kindOf(obj runtime.Object) string {
	gvks := c.gvks(reflect.TypeOf(obj).Elem())
	if says := obj.GetObjectKind().GroupVersionKind(); slices.Contains(gvks, says) || len(gvks) == 0 {
		return says.Kind
	}
	return gvks[0].Kind
}

// Versions returns the versions that an object can be converted to, the preferred first.
func (c *Converter) Versions(obj runtime.Object) []schema.GroupVersionKind {
	t := reflect.TypeOf(obj)
	if t.Kind() != reflect.Pointer {
		return nil
	}
	if k := c.kinds[t.Elem()]; k != nil {
		return c.prioritised(k.gvks(c.kindOf(obj)))
	}
	var gvks []schema.GroupVersionKind
	for _, gvk := range c.gvks(t.Elem()) {
		if gvk.Kind == c.kindOf(obj) && gvk.Version != runtime.APIVersionInternal {
			gvks = append(gvks, gvk)
		}
	}
	return c.prioritised(gvks)
}

// Preferred returns the version to which an object is converted by default: of the group whose
// spoke was registered first, the one that the scheme puts first
// ([runtime.Scheme.SetVersionPriority]).
func (c *Converter) Preferred(obj runtime.Object) (schema.GroupVersionKind, error) {
	versions := c.Versions(obj)
	if len(versions) == 0 {
		return schema.GroupVersionKind{}, fmt.Errorf("%w: %T", ErrUnknown, obj)
	}
	return versions[0], nil
}

// prioritised returns the versions sorted by their priority within each group.
func (c *Converter) prioritised(gvks []schema.GroupVersionKind) []schema.GroupVersionKind {
	var groups []string
	for _, gvk := range gvks {
		if !slices.Contains(groups, gvk.Group) {
			groups = append(groups, gvk.Group)
		}
	}
	rank := func(gvk schema.GroupVersionKind) int {
		if i := slices.Index(c.scheme.PrioritizedVersionsForGroup(gvk.Group), gvk.GroupVersion()); i >= 0 {
			return i
		}
		return len(gvks)
	}
	slices.SortStableFunc(gvks, func(a, b schema.GroupVersionKind) int {
		if a.Group != b.Group {
			return slices.Index(groups, a.Group) - slices.Index(groups, b.Group)
		}
		return rank(a) - rank(b)
	})
	return gvks
}

// preferred selects the preferred version.
type preferred struct{ *Converter }

func (p preferred) KindForGroupVersionKinds(gvks []schema.GroupVersionKind) (schema.GroupVersionKind, bool) {
	if len(gvks) == 0 {
		return schema.GroupVersionKind{}, false
	}
	return p.prioritised(gvks)[0], true
}

func (p preferred) Identifier() string { return "preferred" }

// gvks are the versions of a type, without the internal one of a scheme, which is never served.
func (k *kind) gvks(name string) []schema.GroupVersionKind {
	var all []schema.GroupVersionKind
	for _, v := range k.versions {
		for _, gvk := range v.gvks {
			if gvk.Kind == name && gvk.Version != runtime.APIVersionInternal {
				all = append(all, gvk)
			}
		}
	}
	return all
}

func (k *kind) version(gvk schema.GroupVersionKind) *version {
	for _, v := range k.versions {
		if slices.Contains(v.gvks, gvk) {
			return v
		}
	}
	return nil
}

func (k *kind) of(t reflect.Type) *version {
	return k.versions[slices.IndexFunc(k.versions, func(v *version) bool { return v.goType == t })]
}

func unknownVersion(gvks []schema.GroupVersionKind, target runtime.GroupVersioner) error {
	if len(gvks) == 0 {
		return fmt.Errorf("%w: version %s", ErrUnknown, name(target))
	}
	var known []string
	for _, gvk := range gvks {
		known = append(known, gvk.GroupVersion().String())
	}
	return fmt.Errorf("%w: %s has no version %s, but %s", ErrUnknown, gvks[0].Kind, name(target), strings.Join(known, ", "))
}

func name(target runtime.GroupVersioner) string {
	if gv, ok := target.(schema.GroupVersion); ok {
		return gv.String()
	}
	return target.Identifier()
}
