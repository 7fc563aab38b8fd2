package kind

import (
	"fmt"
	"sync"

	"github.com/kapok-dev/kapok/internal/fields"
	"github.com/kapok-dev/kapok/internal/kinds/openapi"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// fieldTypes are the types of field management that have been compiled so far. Each definition is
// compiled once: most definitions of a StatefulSet are shared with Deployment. The result for a
// kind does not depend on the order of calls.
type fieldTypes struct {
	mu    sync.Mutex
	types *fields.Types
	kinds map[schema.GroupVersionKind]*fields.Type
	names map[string]bool // compiled definitions, together with all that they refer to
}

// builtinTypes are shared by all models of a process.
var builtinTypes = sync.OnceValue(NewFieldTypes)

// NewFieldTypes returns field types without any kind. Its methods may be called concurrently.
func NewFieldTypes() *fieldTypes {
	return &fieldTypes{kinds: map[schema.GroupVersionKind]*fields.Type{}, names: map[string]bool{}}
}

// Of returns the types of a kind in all its versions.
func (f *fieldTypes) Of(versions []schema.GroupVersionKind) (func(schema.GroupVersionKind) *fields.Type, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	found := make(map[schema.GroupVersionKind]*fields.Type, len(versions))
	for _, gvk := range versions {
		if err := f.compileLocked(gvk); err != nil {
			return nil, err
		}
		found[gvk] = f.kinds[gvk]
	}
	return func(gvk schema.GroupVersionKind) *fields.Type { return found[gvk] }, nil
}

// compileLocked compiles the definition of a kind and the definitions that it refers to, unless
// they are compiled already.
func (f *fieldTypes) compileLocked(gvk schema.GroupVersionKind) error {
	if f.kinds[gvk] != nil {
		return nil
	}
	definitions := openapi.Builtin()
	name := definitions.NameOf(gvk)
	if name == "" {
		return fmt.Errorf("no schema of %v", gvk)
	}
	models := map[string]*spec.Schema{}
	for _, name := range definitions.ReachableBut(f.names, name) {
		if s, ok := definitions.Lean(name); ok {
			models[name] = s
		}
	}
	kinds, types, err := fields.OfModels(models, false, f.types)
	if err != nil {
		return fmt.Errorf("schema of %v: %w", gvk, err)
	}
	f.types = types
	for name := range models {
		f.names[name] = true
	}
	for gvk, t := range kinds {
		f.kinds[gvk] = t
	}
	return nil
}
