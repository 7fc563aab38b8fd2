package crd

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/kapok-dev/kapok/internal/manage"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/schema"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	gvk "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"
)

// A model is what the objects of one version of a custom resource may hold. Its program is compiled when it is first
// needed, from the stored form of the CustomResourceDefinition.
type model struct {
	version  string
	preserve bool // spec.preserveUnknownFields
	scale    *apiextensionsv1.CustomResourceSubresourceScale
	source   *source // of the schema
	program  func() (*schema.Program, error)
	types    *fieldTypes
}

var (
	_ resource.Model = (*model)(nil)
	_ resource.Judge = (*model)(nil)
)

func newModel(m *manifest, from *source, v *manifestVersion, types *fieldTypes) *model {
	model := &model{
		version:  v.Name,
		preserve: m.Spec.PreserveUnknownFields,
		source:   from,
		types:    types,
	}
	if v.Subresources != nil {
		model.scale = v.Subresources.Scale
	}
	model.program = sync.OnceValues(model.compile)
	return model
}

func (m *model) compile() (*schema.Program, error) {
	s, err := readSchema(m.source.newest.Load(), m.version)
	if err != nil {
		return nil, err
	}
	p, err := m.source.programs.compile(s, m.preserve)
	if err != nil && m.preserve {
		// Only definitions of v1beta1 can have a schema that is not structural. Nothing is pruned then, nor judged.
		return m.source.programs.compile(nil, true)
	}
	return p, err
}

// Fingerprint is that of the schema: two kinds with equal schemas normalise alike.
func (m *model) Fingerprint() uint64 {
	p, err := m.program()
	if err != nil {
		return 1 // nothing can be normalised with it
	}
	return max(p.Fingerprint(), 1)
}

// Decode reads JSON into a normalised tree; integers stay integers, and keys are case-sensitive.
func (m *model) Decode(data []byte, strict *[]error) (resource.Tree, error) {
	obj := resource.Tree{}
	if strict == nil {
		if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &obj); err != nil {
			return nil, err
		}
	} else {
		repeated, err := kjson.UnmarshalStrict(data, &obj)
		if err != nil {
			return nil, err
		}
		*strict = append(*strict, repeated...)
	}
	if obj == nil { // the body was null
		return nil, runtime.NewMissingKindErr(string(data))
	}
	return m.normalise(obj, strict, false)
}

// errUnservable is what clients see of a schema that cannot be compiled; validation of the CustomResourceDefinition
// keeps such schemas out.
var errUnservable = errors.New("the server could not properly serve the CR schema")

// Normalise does what decoding into a Go type does for built-in kinds: it coerces the metadata, drops what the schema
// does not know, and fills in defaults. Without strict it takes what it gets for an object that is stored already, maybe
// under an older schema: metadata of embedded resources that is malformed is dropped then, and no error.
func (m *model) Normalise(obj resource.Tree, strict *[]error) (resource.Tree, error) {
	return m.normalise(obj, strict, strict == nil)
}

func (m *model) normalise(obj resource.Tree, strict *[]error, stored bool) (resource.Tree, error) {
	p, err := m.program()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnservable, err)
	}
	var unknown *[]string
	if strict != nil {
		unknown = new([]string)
	}
	if err := coerceMetadata(obj, unknown); err != nil {
		return nil, err
	}
	switch err := p.Normalise(obj, unknown); {
	case err != nil && stored:
		p.CoerceStored(obj)
		p.Default(obj)
	case err != nil:
		return nil, err
	}
	if strict != nil {
		for _, path := range *unknown {
			*strict = append(*strict, fmt.Errorf("unknown field %q", path))
		}
	}
	return obj, nil
}

// Completes says whether a field at the root is absent that has a default: a status that was dropped, say.
func (m *model) Completes(obj resource.Tree) bool {
	p, err := m.program()
	return err == nil && p.Completes(obj)
}

// Prune coerces the metadata and drops what the schema does not know; it leaves the rest as it is.
func (m *model) Prune(obj resource.Tree) (resource.Tree, error) {
	p, err := m.program()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnservable, err)
	}
	if err := coerceMetadata(obj, nil); err != nil {
		return nil, err
	}
	p.Prune(obj, nil)
	return obj, nil
}

// Validate judges an object by its schema, by what its scale subresource needs, and by the rules in
// x-kubernetes-validations.
func (m *model) Validate(obj, old resource.Tree, subresource string) field.ErrorList {
	return m.ValidateAfter(nil, obj, old, subresource, nil)
}

// ValidateAfter is Validate for an object about which something was found before, which may make it useless to evaluate
// rules. What is wrong with the object, but was before, is handed to warn unless that is nil.
func (m *model) ValidateAfter(found field.ErrorList, obj, old resource.Tree, subresource string, warn func(string)) field.ErrorList {
	p, err := m.program()
	if err != nil {
		return field.ErrorList{field.InternalError(nil, fmt.Errorf("%w: %w", errUnservable, err))}
	}
	scale := validateScaleStatus(m.scale, obj)
	if subresource != "status" {
		scale = append(validateScaleSpec(m.scale, obj), scale...)
	}
	var errs field.ErrorList
	switch {
	case old == nil:
		errs = p.Validate(obj, scale...)
	case subresource == "status":
		errs = p.ValidateStatus(obj, old, scale...)
	default:
		errs = p.ValidateUpdate(obj, old, scale...)
	}
	return append(errs, p.Evaluate(obj, old, slices.Concat(found, errs), warn)...)
}

// FieldTypes knows all versions of the resource, because managedFields name versions of their own.
func (m *model) FieldTypes() (func(gvk.GroupVersionKind) *manage.Type, error) { return m.types.types() }

// PatchMeta is nil: there is no strategic merge patch for custom resources.
func (m *model) PatchMeta() strategicpatch.LookupPatchMeta { return nil }

// New is nil: custom resources have no Go type.
func (m *model) New() runtime.Object { return nil }

// publish is what OpenAPI documents show of a version.
func publish(m *manifest, from *source, version string) *resource.Published {
	return &resource.Published{
		Fingerprint:           fmt.Sprintf("%s/%d/%s", m.Metadata.UID, m.Metadata.Generation, version),
		Schema:                func() ([]byte, error) { return rawSchema(from.newest.Load(), version) },
		PreserveUnknownFields: m.Spec.PreserveUnknownFields,
	}
}
