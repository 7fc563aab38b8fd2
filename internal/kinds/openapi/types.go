package openapi

import (
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/schemaconv"
	"k8s.io/kube-openapi/pkg/validation/spec"
	smd "sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// TypeConverter is the type converter of field management for all built-in kinds. A kind is
// compiled for its first object, and kinds share common definitions: a Deployment adds little to a
// Pod. It may be shared by several servers and is safe for concurrent use.
type TypeConverter struct {
	definitions *Definitions
	none        managedfields.TypeConverter // a converter without kinds, for its error

	mu    sync.RWMutex
	kinds map[schema.GroupVersionKind]*typed.ParseableType
	known map[string]smd.TypeDef
}

var _ managedfields.TypeConverter = (*TypeConverter)(nil)

// NewTypeConverter returns a converter for the kinds of the definitions.
func NewTypeConverter(d *Definitions) (*TypeConverter, error) {
	none, err := managedfields.NewTypeConverter(nil, false)
	if err != nil {
		return nil, err
	}
	return &TypeConverter{
		definitions: d,
		none:        none,
		kinds:       map[schema.GroupVersionKind]*typed.ParseableType{},
		known:       map[string]smd.TypeDef{},
	}, nil
}

// ObjectToTyped returns a typed value for an object of a known kind.
func (c *TypeConverter) ObjectToTyped(o runtime.Object, options ...typed.ValidationOptions) (*typed.TypedValue, error) {
	parseable, err := c.kind(o.GetObjectKind().GroupVersionKind())
	if err != nil {
		return nil, err
	}
	if parseable == nil {
		return c.none.ObjectToTyped(o, options...)
	}
	if u, ok := o.(*unstructured.Unstructured); ok {
		return parseable.FromUnstructured(u.UnstructuredContent(), options...)
	}
	return parseable.FromStructured(o, options...)
}

// TypedToObject returns an unstructured object.
func (c *TypeConverter) TypedToObject(value *typed.TypedValue) (runtime.Object, error) {
	return c.none.TypedToObject(value)
}

// kind returns the compiled schema of a kind, nil if there is none.
func (c *TypeConverter) kind(kind schema.GroupVersionKind) (*typed.ParseableType, error) {
	c.mu.RLock()
	parseable := c.kinds[kind]
	c.mu.RUnlock()
	if parseable != nil {
		return parseable, nil
	}
	name := c.definitions.NameOf(kind)
	if name == "" {
		return nil, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if parseable := c.kinds[kind]; parseable != nil {
		return parseable, nil
	}
	types := new(smd.Schema)
	for _, name := range c.definitions.Reachable(name) {
		if err := c.compile(name); err != nil {
			return nil, err
		}
		types.Types = append(types.Types, c.known[name])
	}
	for _, name := range sharedTypes {
		types.Types = append(types.Types, c.known[name])
	}
	parseable = &typed.ParseableType{Schema: types, TypeRef: smd.TypeRef{NamedType: &name}}
	c.kinds[kind] = parseable
	return parseable, nil
}

// sharedTypes are in every compiled definition: the types of values without a schema.
var sharedTypes = [...]string{"__untyped_atomic_", "__untyped_deduced_"}

// compile adds a definition to the known types. The caller must hold the lock.
func (c *TypeConverter) compile(name string) error {
	if _, ok := c.known[name]; ok {
		return nil
	}
	raw, _ := c.definitions.Raw(name)
	s, err := decode(withoutDescriptions(raw))
	if err != nil {
		return fmt.Errorf("definition %s: %w", name, err)
	}
	compiled, err := schemaconv.ToSchemaFromOpenAPI(map[string]*spec.Schema{name: s}, false)
	if err != nil {
		return fmt.Errorf("definition %s: %w", name, err)
	}
	for _, def := range compiled.Types {
		if _, ok := c.known[def.Name]; !ok {
			c.known[def.Name] = def
		}
	}
	return nil
}
