package builtin

import (
	"fmt"
	"sync"

	"github.com/kapok-dev/kapok/internal/builtin/openapi"
	"github.com/kapok-dev/kapok/internal/manage"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// fieldTypes are what field management knows of the definitions that were needed so far. Each is compiled once: a StatefulSet
// costs little after a Deployment, of whose definitions most are its own, too. What is found does not depend on what was
// asked for before.
type fieldTypes struct {
	mu    sync.Mutex
	types *manage.Types
	kinds map[schema.GroupVersionKind]*manage.Type
	names map[string]bool // of the definitions that are compiled; all that they refer to are, too
}

// builtinTypes are those that the models of a process share.
var builtinTypes = sync.OnceValue(newFieldTypes)

func newFieldTypes() *fieldTypes {
	return &fieldTypes{kinds: map[schema.GroupVersionKind]*manage.Type{}, names: map[string]bool{}}
}

// of returns the types of a kind in all its versions.
func (f *fieldTypes) of(versions []schema.GroupVersionKind) (func(schema.GroupVersionKind) *manage.Type, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	found := make(map[schema.GroupVersionKind]*manage.Type, len(versions))
	for _, gvk := range versions {
		if err := f.compileLocked(gvk); err != nil {
			return nil, err
		}
		found[gvk] = f.kinds[gvk]
	}
	return func(gvk schema.GroupVersionKind) *manage.Type { return found[gvk] }, nil
}

// compileLocked compiles the definition of a kind, and what it refers to, as far as that is new.
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
	kinds, types, err := manage.OfModels(models, false, f.types)
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
