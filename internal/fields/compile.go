package fields

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/schemaconv"
	"k8s.io/kube-openapi/pkg/validation/spec"
	smd "sigs.k8s.io/structured-merge-diff/v6/schema"
)

// OfModels compiles the OpenAPI schemas of custom or built-in kinds, in the form of
// managedfields.NewTypeConverter: by name; the schema of a kind is marked with
// x-kubernetes-group-version-kind. Names that models lacks are looked up in base, which may be nil,
// so that kinds can share compiled definitions.
func OfModels(models map[string]*spec.Schema, preserveUnknownFields bool, base *Types) (map[schema.GroupVersionKind]*Type, *Types, error) {
	converted, err := schemaconv.ToSchemaFromOpenAPI(models, preserveUnknownFields)
	if err != nil {
		return nil, nil, err
	}
	types, err := Compile(converted, base)
	if err != nil {
		return nil, nil, err
	}
	kinds := map[schema.GroupVersionKind]*Type{}
	for name, s := range models {
		for _, kind := range kindsOf(s) {
			kinds[kind] = types.Named(name)
		}
	}
	return kinds, types, nil
}

func kindsOf(s *spec.Schema) (kinds []schema.GroupVersionKind) {
	list, _ := s.Extensions["x-kubernetes-group-version-kind"].([]any)
	for _, item := range list {
		m, _ := item.(map[string]any)
		group, ok := m["group"].(string)
		version, ok2 := m["version"].(string)
		kind, ok3 := m["kind"].(string)
		if ok && ok2 && ok3 && kind != "" {
			kinds = append(kinds, schema.GroupVersionKind{Group: group, Version: version, Kind: kind})
		}
	}
	return kinds
}

// Compile compiles a schema of the library of server-side apply, into which the OpenAPI schemas of
// all kinds can be converted. Names that s lacks are looked up in base, which may be nil.
func Compile(s *smd.Schema, base *Types) (*Types, error) {
	c := newCompiler(base)
	for _, def := range s.Types {
		if c.named[def.Name] == nil {
			c.named[def.Name] = &node{}
			c.pending = append(c.pending, def)
		}
	}
	for _, def := range c.pending {
		n, err := c.atom(def.Atom)
		if err != nil {
			return nil, fmt.Errorf("compile %s: %w", def.Name, err)
		}
		*c.named[def.Name] = *n
	}
	if err := c.finish(); err != nil {
		return nil, err
	}
	return &Types{named: c.named}, nil
}

// The names of converted schemas for values without a schema.
const (
	untypedAtomic  = "__untyped_atomic_"
	untypedDeduced = "__untyped_deduced_"
)

type compiler struct {
	named   map[string]*node
	pending []smd.TypeDef
	scalars map[smd.Scalar]*node
	// Work that must wait until all names are compiled.
	copies []override
	lists  []*node
}

// override is a reference that sets the ownership of the map that it refers to.
type override struct {
	n, of  *node
	atomic bool
}

func newCompiler(base *Types) *compiler {
	c := &compiler{named: map[string]*node{}, scalars: map[smd.Scalar]*node{}}
	if base != nil {
		for name, n := range base.named {
			c.named[name] = n
		}
	}
	if c.named[untypedAtomic] == nil {
		c.named[untypedAtomic], c.named[untypedDeduced] = free(true), free(false)
		c.named[untypedDeduced].items = c.named[untypedAtomic]
	}
	return c
}

// free returns a node that every value fits.
func free(atomic bool) *node {
	n := &node{kinds: kindMap | kindScalar | kindList, scalar: smd.Untyped, atomicMap: atomic, atomicList: true, untyped: !atomic, open: true}
	n.element, n.items = n, n
	return n
}

func (c *compiler) reference(r smd.TypeRef) (*node, error) {
	if r.NamedType == nil {
		return c.atom(r.Inlined)
	}
	n := c.named[*r.NamedType]
	if n == nil {
		return nil, fmt.Errorf("no type found matching: %s", *r.NamedType)
	}
	if r.ElementRelationship == nil {
		return n, nil
	}
	o := &node{}
	c.copies = append(c.copies, override{o, n, *r.ElementRelationship == smd.Atomic})
	return o, nil
}

func (c *compiler) atom(a smd.Atom) (*node, error) {
	if a.Map == nil && a.List == nil && a.Scalar != nil {
		n := c.scalars[*a.Scalar]
		if n == nil {
			n = &node{kinds: kindScalar, scalar: *a.Scalar}
			c.scalars[*a.Scalar] = n
		}
		return n, nil
	}
	n := &node{}
	if a.Scalar != nil {
		n.kinds, n.scalar = n.kinds|kindScalar, *a.Scalar
	}
	if a.Map != nil {
		if err := c.object(n, a.Map); err != nil {
			return nil, err
		}
	}
	if a.List != nil {
		if err := c.list(n, a.List); err != nil {
			return nil, err
		}
	}
	n.open = n.scalar == smd.Untyped && n.kinds == kindMap|kindScalar|kindList && len(n.fields) == 0 &&
		n.element != nil && n.element.open && n.atomicList && n.items.open
	return n, nil
}

func (c *compiler) object(n *node, m *smd.Map) (err error) {
	n.kinds |= kindMap
	n.atomicMap = m.ElementRelationship == smd.Atomic
	if r := m.ElementType; r.NamedType != nil || r.Inlined != (smd.Atom{}) {
		if n.element, err = c.reference(r); err != nil {
			return err
		}
		unknown := r.NamedType != nil && *r.NamedType == untypedDeduced ||
			r.NamedType == nil && r.Inlined.Scalar != nil && *r.Inlined.Scalar == smd.Untyped
		n.untyped = unknown && len(m.Fields) == 0
	}
	if len(m.Fields) == 0 {
		return nil
	}
	n.fields = make([]field, 0, len(m.Fields))
	for _, f := range m.Fields {
		child, err := c.reference(f.Type)
		if err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
		element := "f:" + f.Name
		n.fields = append(n.fields, field{element, child})
		if f.Default != nil {
			if n.defaults == nil {
				n.defaults = map[string]any{}
			}
			n.defaults[f.Name] = f.Default
		}
	}
	slices.SortFunc(n.fields, func(a, b field) int { return compareNames(a.name(), b.name()) })
	return nil
}

func (c *compiler) list(n *node, l *smd.List) (err error) {
	n.kinds |= kindList
	n.atomicList = l.ElementRelationship != smd.Associative
	if n.items, err = c.reference(l.ElementType); err != nil {
		return err
	}
	if n.atomicList || len(l.Keys) == 0 {
		return nil
	}
	n.keyNames = l.Keys
	for _, name := range l.Keys {
		n.keys = append(n.keys, key{name: name})
	}
	slices.SortStableFunc(n.keys, func(a, b key) int { return strings.Compare(a.name, b.name) })
	c.lists = append(c.lists, n)
	return nil
}

func (c *compiler) finish() error {
	for _, o := range c.copies {
		*o.n = *o.of
		switch {
		case o.n.kinds&kindMap != 0:
			o.n.atomicMap = o.atomic
		case o.n.kinds&kindList != 0:
			o.n.atomicList = o.atomic
		default:
			return errors.New("a scalar cannot be atomic or granular")
		}
	}
	for _, n := range c.lists {
		for i := range n.keys {
			n.keys[i].fallback = n.items.defaults[n.keys[i].name]
		}
	}
	return nil
}
