package crd

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"reflect"
	"sync"

	"github.com/kapok-dev/kapok/client/typed"
	"github.com/kapok-dev/kapok/internal/fields"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/generated/openapi"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// kinds has the Go types of CustomResourceDefinition, their defaults and conversions. It is
// immutable.
var kinds = sync.OnceValue(func() *runtime.Scheme {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	return scheme
})

// kindFormat is the version of the trees that a kindModel returns. It must grow when they change,
// so that stored objects are normalised again.
const kindFormat = "1"

// A kindModel is the model of CustomResourceDefinitions of one version, which follows their Go
// type.
type kindModel struct {
	version     schema.GroupVersion
	goType      reflect.Type
	fingerprint uint64
	verdicts    verdicts
	// judge validates a definition, or an update of one, with the library's rules; obj is never
	// nil. Tests replace it to count calls.
	judge func(ctx context.Context, obj, old resource.Tree) field.ErrorList
}

var _ resource.Model = (*kindModel)(nil)

func newKindModel(empty runtime.Object, gv schema.GroupVersion) *kindModel {
	hash := fnv.New64a()
	hash.Write([]byte(gv.String() + " " + kindFormat))
	m := &kindModel{version: gv, goType: reflect.TypeOf(empty).Elem(), fingerprint: max(hash.Sum64(), 1)}
	m.judge = func(ctx context.Context, obj, old resource.Tree) field.ErrorList {
		return m.apply(ctx, obj, old, "")
	}
	return m
}

// Fingerprint returns a hash of the version and of kindFormat.
func (m *kindModel) Fingerprint() uint64 { return m.fingerprint }

// New returns an empty CustomResourceDefinition.
func (m *kindModel) New() runtime.Object {
	obj, _ := reflect.New(m.goType).Interface().(runtime.Object)
	return obj
}

// PatchMeta returns the merge keys of the Go type.
func (m *kindModel) PatchMeta() strategicpatch.LookupPatchMeta {
	meta, err := strategicpatch.NewPatchMetaFromStruct(m.New())
	if err != nil { // cannot happen: the type is a struct
		return nil
	}
	return meta
}

// Decode decodes JSON into the Go type, and returns its tree with defaults. Unknown and duplicate
// fields are appended to strict unless it is nil.
func (m *kindModel) Decode(data []byte, strict *[]error) (resource.Tree, error) {
	obj := m.New()
	if strict == nil {
		if err := typed.FromJSON(data, obj); err != nil {
			return nil, kindDecodeError(data, err)
		}
	} else {
		found, err := typed.FromJSONStrict(data, obj)
		if err != nil {
			return nil, kindDecodeError(data, err)
		}
		*strict = append(*strict, found...)
	}
	return m.tree(obj)
}

// kindDecodeError returns the error in Kubernetes' words; Kubernetes decodes kind and apiVersion
// first.
func kindDecodeError(data []byte, err error) error {
	var meta struct {
		APIVersion string `json:"apiVersion,omitempty"`
		Kind       string `json:"kind,omitempty"`
	}
	if err := json.Unmarshal(data, &meta); err != nil {
		return fmt.Errorf("couldn't get version/kind; json parse error: %w", err)
	}
	return err
}

// Normalise encodes the tree and decodes it into the Go type. See Decode.
func (m *kindModel) Normalise(obj resource.Tree, strict *[]error) (resource.Tree, error) {
	data, err := object.AppendJSON(nil, obj)
	if err != nil {
		return nil, err
	}
	return m.Decode(data, strict)
}

// Prune is Normalise: a converted definition also gets its defaults.
func (m *kindModel) Prune(obj resource.Tree) (resource.Tree, error) { return m.Normalise(obj, nil) }

// tree sets the defaults of an object and returns its tree.
func (m *kindModel) tree(obj runtime.Object) (resource.Tree, error) {
	kinds().Default(obj)
	obj.GetObjectKind().SetGroupVersionKind(m.version.WithKind("CustomResourceDefinition"))
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, err
	}
	wholeNumbers(tree)
	return tree, nil
}

// wholeNumbers turns floats without a fraction into integers. Bounds in schemas are floats in Go,
// and come back from the store as integers.
func wholeNumbers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			if f, ok := e.(float64); ok {
				v[k] = wholeNumbers(f)
			} else {
				wholeNumbers(e)
			}
		}
	case []any:
		for i, e := range v {
			v[i] = wholeNumbers(e)
		}
	case float64:
		if n := int64(v); float64(n) == v && math.Abs(v) < 1<<53 {
			return n
		}
	}
	return v
}

// internal returns the internal form of a tree, which the library's rules work on.
func (m *kindModel) internal(obj resource.Tree) (*apiextensions.CustomResourceDefinition, error) {
	data, err := object.AppendJSON(nil, obj)
	if err != nil {
		return nil, err
	}
	versioned := m.New()
	if err := typed.FromJSON(data, versioned); err != nil {
		return nil, err
	}
	internal := &apiextensions.CustomResourceDefinition{}
	return internal, kinds().Convert(versioned, internal, nil)
}

// Validate validates with the library's rules. Each set of schemas is validated once (see
// verdicts).
func (m *kindModel) Validate(ctx context.Context, obj, old resource.Tree, subresource string) field.ErrorList {
	switch {
	case subresource == "status": // no rule concerns the spec, which is large
		return m.apply(ctx, withoutSpec(obj), withoutSpec(old), subresource)
	case m.version == apiextensionsv1.SchemeGroupVersion:
		return m.validate(ctx, obj, old)
	}
	return m.judge(ctx, obj, old)
}

// apply applies the library's rules to the internal form.
func (m *kindModel) apply(ctx context.Context, obj, old resource.Tree, subresource string) field.ErrorList {
	now, err := m.internal(obj)
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	var before *apiextensions.CustomResourceDefinition
	if old != nil {
		if before, err = m.internal(old); err != nil {
			return field.ErrorList{field.InternalError(nil, err)}
		}
	}
	return validateKind(ctx, now, before, subresource, m.version)
}

func withoutSpec(obj resource.Tree) resource.Tree {
	rest := maps.Clone(obj)
	delete(rest, "spec")
	return rest
}

// convertKind converts a tree from one version to another, through the internal form.
func convertKind(obj resource.Tree, from, to *resource.Version) error {
	source, ok := from.Model.(*kindModel)
	target, ok2 := to.Model.(*kindModel)
	if !ok || !ok2 {
		return fmt.Errorf("cannot convert CustomResourceDefinitions from %s to %s", from.Name, to.Name)
	}
	internal, err := source.internal(obj)
	if err != nil {
		return err
	}
	versioned := target.New()
	if err := kinds().Convert(internal, versioned, nil); err != nil {
		return err
	}
	converted, err := target.tree(versioned)
	if err != nil {
		return err
	}
	clear(obj)
	maps.Copy(obj, converted)
	return nil
}

// FieldTypes returns the types of both versions.
func (m *kindModel) FieldTypes() (func(schema.GroupVersionKind) *fields.Type, error) {
	return kindTypes()
}

// kindTypes are the schemas of both versions, made on first use and shared by all servers of the
// process.
var kindTypes = sync.OnceValues(func() (func(schema.GroupVersionKind) *fields.Type, error) {
	models := map[string]*spec.Schema{}
	for name, d := range openapi.GetOpenAPIDefinitions(func(name string) spec.Ref { return spec.MustCreateRef("#/components/schemas/" + name) }) {
		models[name] = &d.Schema
	}
	for gvk, goType := range kinds().AllKnownTypes() {
		if gvk.Kind != "CustomResourceDefinition" || gvk.Version == runtime.APIVersionInternal {
			continue
		}
		named, ok := reflect.Zero(goType).Interface().(interface{ OpenAPIModelName() string })
		if !ok || models[named.OpenAPIModelName()] == nil {
			return nil, fmt.Errorf("no schema of %v", gvk)
		}
		models[named.OpenAPIModelName()].AddExtension("x-kubernetes-group-version-kind", []any{
			map[string]any{"group": gvk.Group, "version": gvk.Version, "kind": gvk.Kind},
		})
	}
	kinds, _, err := fields.OfModels(models, false, nil)
	return func(gvk schema.GroupVersionKind) *fields.Type { return kinds[gvk] }, err
})
