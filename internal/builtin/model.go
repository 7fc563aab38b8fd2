package builtin

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"sync"
	"unicode/utf8"

	"github.com/kapok-dev/kapok/internal/builtin/validation"
	"github.com/kapok-dev/kapok/internal/manage"
	"github.com/kapok-dev/kapok/internal/resource"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"
)

// format numbers the trees that models make. It grows when defaults change, so
// that stored objects are normalised anew.
const format = "1"

// A model is what may be in the objects of the Go type T.
type model[T any] struct {
	apiVersion  string
	kind        string
	fingerprint uint64
	defaults    func(obj *T)
	// validators by subresource; "" is the main resource, and stands in for
	// subresources that have none.
	validators map[string]func(obj, old *T) field.ErrorList
	types      func() (func(schema.GroupVersionKind) *manage.Type, error)
	patchMeta  func() strategicpatch.LookupPatchMeta
}

var _ resource.Model = (*model[struct{}])(nil)

// newModel makes the model of a kind in one version. kinds are the kind in all its versions.
func newModel[T any](gvk schema.GroupVersionKind, defaults func(*T), validate func(obj, old *T) field.ErrorList, subresources []subresource[T], kinds ...schema.GroupVersionKind) *model[T] {
	m := &model[T]{
		apiVersion: gvk.GroupVersion().String(),
		kind:       gvk.Kind,
		defaults:   defaults,
		validators: map[string]func(obj, old *T) field.ErrorList{"": validate},
		types: sync.OnceValues(func() (func(schema.GroupVersionKind) *manage.Type, error) {
			return builtinTypes().of(kinds)
		}),
		patchMeta: sync.OnceValue(func() strategicpatch.LookupPatchMeta {
			meta, err := strategicpatch.NewPatchMetaFromStruct(new(T))
			if err != nil { // T is a struct
				return nil
			}
			return meta
		}),
	}
	for _, s := range subresources {
		if s.validate != nil {
			m.validators[s.Name] = s.validate
		}
	}
	hash := fnv.New64a()
	hash.Write([]byte(gvk.String() + " " + format))
	m.fingerprint = max(hash.Sum64(), 1)
	return m
}

func (m *model[T]) Fingerprint() uint64 { return m.fingerprint }

func (m *model[T]) FieldTypes() (func(schema.GroupVersionKind) *manage.Type, error) {
	return m.types()
}

func (m *model[T]) PatchMeta() strategicpatch.LookupPatchMeta { return m.patchMeta() }

func (m *model[T]) New() runtime.Object {
	obj, _ := any(new(T)).(runtime.Object)
	return obj
}

// Decode is the way of serializer/json in apimachinery, from which the errors come.
func (m *model[T]) Decode(data []byte, strict *[]error) (resource.Tree, error) {
	obj := new(T)
	if strict == nil {
		if err := kjson.UnmarshalCaseSensitivePreserveInts(data, obj); err != nil {
			return nil, decodeError(data, err)
		}
		return m.tree(obj)
	}
	found, err := kjson.UnmarshalStrict(data, obj)
	if err != nil {
		return nil, decodeError(data, err)
	}
	*strict = append(*strict, found...)
	return m.tree(obj)
}

// TreeOf is what Decode makes of the object as JSON, but for the way there and back.
func (m *model[T]) TreeOf(obj runtime.Object) (resource.Tree, error) {
	typed, ok := any(obj).(*T)
	if !ok {
		return nil, fmt.Errorf("a %T where a %T belongs", obj, typed)
	}
	tree, err := m.tree(typed)
	if err == nil && readable(tree) {
		return tree, nil
	}
	data, err := json.Marshal(obj)
	if err != nil {
		return nil, err
	}
	return m.Decode(data, nil)
}

// readable says whether all text is UTF-8, which protobuf does not promise, and JSON does.
func readable(value any) bool {
	switch value := value.(type) {
	case string:
		return utf8.ValidString(value)
	case map[string]any:
		for key, element := range value {
			if !utf8.ValidString(key) || !readable(element) {
				return false
			}
		}
	case []any:
		for _, element := range value {
			if !readable(element) {
				return false
			}
		}
	}
	return true
}

// decodeError says it as Kubernetes does, which looks for kind and apiVersion first.
func decodeError(data []byte, err error) error {
	var typeMeta struct {
		APIVersion string `json:"apiVersion,omitempty"`
		Kind       string `json:"kind,omitempty"`
	}
	if err := json.Unmarshal(data, &typeMeta); err != nil {
		return fmt.Errorf("couldn't get version/kind; json parse error: %w", err)
	}
	return err
}

func (m *model[T]) Normalise(tree resource.Tree, strict *[]error) (resource.Tree, error) {
	obj := new(T)
	err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(tree, obj, strict != nil)
	if dropped, ok := runtime.AsStrictDecodingError(err); ok {
		*strict = append(*strict, dropped.Errors()...)
	} else if err != nil {
		return nil, err
	}
	return m.tree(obj)
}

// Prune fills in no defaults: what an object of another version leaves open, it
// leaves open with the defaults of that version.
func (m *model[T]) Prune(tree resource.Tree) (resource.Tree, error) {
	obj := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(tree, obj); err != nil {
		return nil, err
	}
	return runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
}

// tree gives an object its defaults and turns it into a tree.
func (m *model[T]) tree(obj *T) (resource.Tree, error) {
	if m.defaults != nil {
		m.defaults(obj)
	}
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, err
	}
	if meta, ok := any(obj).(metav1.Object); ok && meta.GetManagedFields() != nil && len(meta.GetManagedFields()) == 0 {
		put(tree, []any{}, "metadata", "managedFields") // an empty list asks for a fresh start
	}
	for key, value := range map[string]string{"apiVersion": m.apiVersion, "kind": m.kind} {
		if text(tree, key) == "" {
			tree[key] = value
		}
	}
	return tree, nil
}

func (m *model[T]) Validate(obj, old resource.Tree, subresource string) field.ErrorList {
	errs := validation.Finalizers(obj)
	validate, ok := m.validators[subresource]
	if !ok {
		validate = m.validators[""]
	}
	if validate == nil {
		return errs
	}
	var before *T
	if old != nil {
		before = decoded[T](old)
	}
	return once(append(errs, validate(decoded[T](obj), before)...))
}

// once leaves out what has been said before, as Kubernetes does for its own kinds.
func once(errs field.ErrorList) field.ErrorList {
	said := map[string]bool{}
	return slices.DeleteFunc(errs, func(err *field.Error) bool {
		again := said[err.Error()]
		said[err.Error()] = true
		return again
	})
}

// decoded returns the Go object of a tree that a model has made, without its managedFields: they are dear, and nobody who
// judges or changes a kind looks at them.
func decoded[T any](tree resource.Tree) *T {
	if m, ok := tree["metadata"].(map[string]any); ok && m["managedFields"] != nil {
		m = maps.Clone(m)
		delete(m, "managedFields")
		tree = maps.Clone(tree)
		tree["metadata"] = m
	}
	obj := new(T)
	// A tree from ToUnstructured fits its type.
	_ = runtime.DefaultUnstructuredConverter.FromUnstructured(tree, obj)
	return obj
}

// edited makes a function of the Go type one that changes a tree.
func edited[T any](edit func(obj *T)) func(resource.Tree) {
	return func(tree resource.Tree) {
		obj := decoded[T](tree)
		edit(obj)
		if result, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj); err == nil {
			if m, _ := tree["metadata"].(map[string]any); m["managedFields"] != nil {
				put(result, m["managedFields"], "metadata", "managedFields")
			}
			clear(tree)
			maps.Copy(tree, result)
		}
	}
}
