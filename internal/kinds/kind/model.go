package kind

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"reflect"
	"sync"
	"unicode/utf8"

	"github.com/kapok-dev/kapok/client/typed"
	"github.com/kapok-dev/kapok/internal/causes"
	"github.com/kapok-dev/kapok/internal/fields"
	"github.com/kapok-dev/kapok/internal/kinds/rule"
	"github.com/kapok-dev/kapok/internal/resource"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// format is part of every fingerprint. It is incremented when defaults change, so that stored
// objects are normalised again.
const format = "1"

// A model decodes, defaults and validates objects of the Go type that P points to, in one version.
type model[P runtime.Object] struct {
	apiVersion  string
	kind        string
	fingerprint uint64
	defaults    func(obj P)
	// validators maps subresources to their validation; "" is the main resource, whose validation
	// is also used by subresources without their own.
	validators map[string]validator[P]
	types      func() (func(schema.GroupVersionKind) *fields.Type, error)
	patchMeta  func() strategicpatch.LookupPatchMeta
}

// validator returns the errors of an object. It may return early once the context has ended, as its
// errors are not used then.
type validator[P runtime.Object] func(ctx context.Context, obj, old P) field.ErrorList

// validatorsOf returns the validators of a kind, by subresource.
func validatorsOf[P runtime.Object](k Kind[P], subresources []Subresource[P]) map[string]validator[P] {
	all := map[string]validator[P]{}
	if k.ValidateContext != nil {
		all[""] = k.ValidateContext
	} else if k.Validate != nil {
		all[""] = quick(k.Validate)
	}
	for _, s := range subresources {
		if s.Unvalidated {
			all[s.Name] = nil
		} else if s.Validate != nil {
			all[s.Name] = quick(s.Validate)
		}
	}
	return all
}

// quick is the validator of a validation that does not take long.
func quick[P runtime.Object](validate func(obj, old P) field.ErrorList) validator[P] {
	return func(_ context.Context, obj, old P) field.ErrorList { return validate(obj, old) }
}

var _ resource.Model = (*model[*metav1.Status])(nil)

// NewModel returns the model of a kind in the version gvk. kinds are the kind in all its versions;
// validators are those of its subresources, with "" for the main resource.
func NewModel[P runtime.Object](gvk schema.GroupVersionKind, defaults func(P), validators map[string]validator[P], kinds ...schema.GroupVersionKind) *model[P] {
	m := &model[P]{
		apiVersion: gvk.GroupVersion().String(),
		kind:       gvk.Kind,
		defaults:   defaults,
		validators: validators,
		types: sync.OnceValues(func() (func(schema.GroupVersionKind) *fields.Type, error) {
			return builtinTypes().Of(kinds)
		}),
		patchMeta: sync.OnceValue(func() strategicpatch.LookupPatchMeta {
			meta, err := strategicpatch.NewPatchMetaFromStruct(New[P]())
			if err != nil { // P points to a struct
				return nil
			}
			return meta
		}),
	}
	hash := fnv.New64a()
	hash.Write([]byte(gvk.String() + " " + format))
	m.fingerprint = max(hash.Sum64(), 1)
	return m
}

// Fingerprint identifies the version of the kind and the format of its trees; it is never 0.
func (m *model[P]) Fingerprint() uint64 { return m.fingerprint }

// FieldTypes returns what field management knows of the kind in all its versions.
func (m *model[P]) FieldTypes() (func(schema.GroupVersionKind) *fields.Type, error) {
	return m.types()
}

// PatchMeta returns the merge keys of the Go type for strategic merge patches.
func (m *model[P]) PatchMeta() strategicpatch.LookupPatchMeta { return m.patchMeta() }

// New returns an empty object of the Go type.
func (m *model[P]) New() runtime.Object {
	return New[P]()
}

// Decode follows apimachinery's serializer/json, whose errors it returns.
func (m *model[P]) Decode(data []byte, strict *[]error) (resource.Tree, error) {
	obj := New[P]()
	if strict == nil {
		if err := typed.FromJSON(data, obj); err != nil {
			return nil, decodeError(data, err)
		}
		return m.Tree(obj)
	}
	found, err := typed.FromJSONStrict(data, obj)
	if err != nil {
		return nil, decodeError(data, err)
	}
	*strict = append(*strict, found...)
	return m.Tree(obj)
}

// TreeOf returns what Decode would return for the object's JSON, without encoding it where that
// makes no difference.
func (m *model[P]) TreeOf(obj runtime.Object) (resource.Tree, error) {
	typed, ok := obj.(P)
	if !ok {
		return nil, fmt.Errorf("object is a %T, want a %T", obj, typed)
	}
	tree, err := m.Tree(typed)
	if err == nil && readable(tree) {
		return tree, nil
	}
	data, err := json.Marshal(obj)
	if err != nil {
		return nil, err
	}
	return m.Decode(data, nil)
}

// readable reports whether all text is valid UTF-8. Protobuf does not guarantee that, JSON does.
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

// decodeError returns the error of Kubernetes, which decodes kind and apiVersion first.
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

// Normalise drops unknown fields of a tree, applies defaults and puts values into canonical form.
// Unless strict is nil, it receives an error for each dropped field.
func (m *model[P]) Normalise(tree resource.Tree, strict *[]error) (resource.Tree, error) {
	obj := New[P]()
	from := typed.FromTree
	if strict != nil {
		from = typed.FromTreeStrict
	}
	err := from(tree, obj)
	if dropped, ok := runtime.AsStrictDecodingError(err); ok {
		*strict = append(*strict, dropped.Errors()...)
	} else if err != nil {
		return nil, err
	}
	return m.Tree(obj)
}

// Prune drops unknown fields without applying defaults: an object of another version gets the
// defaults of that version.
func (m *model[P]) Prune(tree resource.Tree) (resource.Tree, error) {
	obj := New[P]()
	if err := typed.FromTree(tree, obj); err != nil {
		return nil, err
	}
	return typed.ToTree(obj)
}

// Tree applies defaults to an object and returns it as a tree.
func (m *model[P]) Tree(obj P) (resource.Tree, error) {
	if m.defaults != nil {
		m.defaults(obj)
	}
	tree, err := typed.ToTree(obj)
	if err != nil {
		return nil, err
	}
	if meta, ok := any(obj).(metav1.Object); ok && meta.GetManagedFields() != nil && len(meta.GetManagedFields()) == 0 {
		Put(tree, []any{}, "metadata", "managedFields") // an empty list resets the managed fields
	}
	for key, value := range map[string]string{"apiVersion": m.apiVersion, "kind": m.kind} {
		if Text(tree, key) == "" {
			tree[key] = value
		}
	}
	return tree, nil
}

// Validate returns the errors of an object; old is nil on create. A subresource without a
// validator of its own uses that of the main resource.
func (m *model[P]) Validate(ctx context.Context, obj, old resource.Tree, subresource string) field.ErrorList {
	errs := rule.Finalizers(obj)
	validate, ok := m.validators[subresource]
	if !ok {
		validate = m.validators[""]
	}
	if validate == nil {
		return errs
	}
	var before P
	if old != nil {
		before = decoded[P](old)
	}
	return causes.Once(append(errs, validate(ctx, decoded[P](obj), before)...))
}

// Decoded returns the Go object of a tree that a model has made, without managedFields: decoding
// them is expensive, and no validation or strategy of a kind reads them.
func Decoded[T any](tree resource.Tree) *T {
	obj := new(T)
	decode(tree, obj)
	return obj
}

// decoded is Decoded for the type that P points to.
func decoded[P runtime.Object](tree resource.Tree) P {
	obj := New[P]()
	decode(tree, obj)
	return obj
}

// New returns a new object of the type that P points to.
func New[P runtime.Object]() P { return reflect.New(reflect.TypeFor[P]().Elem()).Interface().(P) }

// decode fills obj from a tree that a model has made, without managedFields.
func decode(tree resource.Tree, obj any) {
	if m, ok := tree["metadata"].(map[string]any); ok && m["managedFields"] != nil {
		m = maps.Clone(m)
		delete(m, "managedFields")
		tree = maps.Clone(tree)
		tree["metadata"] = m
	}
	// A tree from ToTree always fits its type.
	_ = typed.FromTree(tree, obj)
}

// Edited returns a function that applies edit to a tree.
func Edited[P runtime.Object](edit func(obj P)) func(resource.Tree) {
	return func(tree resource.Tree) {
		obj := decoded[P](tree)
		edit(obj)
		if result, err := typed.ToTree(obj); err == nil {
			if m, _ := tree["metadata"].(map[string]any); m["managedFields"] != nil {
				Put(result, m["managedFields"], "metadata", "managedFields")
			}
			clear(tree)
			maps.Copy(tree, result)
		}
	}
}
