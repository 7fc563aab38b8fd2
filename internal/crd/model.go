package crd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/kapok-dev/kapok/client/typed"
	"github.com/kapok-dev/kapok/internal/fields"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/schema"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	gvk "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A model is the model of one version of a custom resource. Its program is compiled on first use,
// from the stored CustomResourceDefinition.
type model struct {
	version  string
	preserve bool // spec.preserveUnknownFields
	scale    *apiextensionsv1.CustomResourceSubresourceScale
	source   *source // of the schema
	program  func() (*schema.Program, error)
	types    *fieldTypes
}

var (
	_ resource.Model               = (*model)(nil)
	_ resource.RatchetingValidator = (*model)(nil)

	_ resource.Completer = (*model)(nil)
	_ resource.Defaulter = (*model)(nil)
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
		// Only definitions of v1beta1 can have a schema that is not structural. Such objects are
		// neither pruned nor validated.
		return m.source.programs.compile(nil, true)
	}
	return p, err
}

// Fingerprint returns a hash of the schema: kinds with equal schemas normalise alike.
func (m *model) Fingerprint() uint64 {
	p, err := m.program()
	if err != nil {
		return 1 // this schema normalises nothing
	}
	return max(p.Fingerprint(), 1)
}

// Decode decodes JSON into a normalised tree; integers stay integers, and keys are case-sensitive.
func (m *model) Decode(data []byte, strict *[]error) (resource.Tree, error) {
	var obj resource.Tree
	var err error
	if strict == nil {
		obj, err = typed.Tree(data)
	} else {
		var repeated []error
		obj, repeated, err = typed.TreeStrict(data)
		*strict = append(*strict, repeated...)
	}
	if err != nil {
		return nil, err
	}
	if obj == nil { // the body is null
		return nil, runtime.NewMissingKindErr(string(data))
	}
	return m.normalise(obj, strict, (*schema.Program).Normalise, false)
}

// errUnservable is the error that clients get if a schema cannot be compiled; validation of
// CustomResourceDefinitions rejects such schemas.
var errUnservable = errors.New("the server could not properly serve the CR schema")

// Normalise does for custom resources what decoding into a Go type does for built-in kinds: it
// coerces metadata, drops fields that the schema does not specify, and sets defaults. A nil strict
// is for objects that are stored already, possibly under an older schema: malformed metadata of
// embedded resources is dropped then, without an error.
func (m *model) Normalise(obj resource.Tree, strict *[]error) (resource.Tree, error) {
	return m.normalise(obj, strict, (*schema.Program).Normalise, strict == nil)
}

// Complete is Normalise for the result of an apply. kube-apiserver does not decode that result, and
// so does not remove nulls that the schema forbids; only defaults replace them.
func (m *model) Complete(obj resource.Tree) (resource.Tree, error) {
	complete := func(p *schema.Program, obj map[string]any, _ *[]string) error { return p.Complete(obj) }
	return m.normalise(obj, nil, complete, true)
}

func (m *model) normalise(obj resource.Tree, strict *[]error, by func(*schema.Program, map[string]any, *[]string) error, stored bool) (resource.Tree, error) {
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
	switch err := by(p, obj, unknown); {
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

// Default sets defaults, and keeps all else.
func (m *model) Default(obj resource.Tree) (resource.Tree, error) {
	p, err := m.program()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnservable, err)
	}
	p.Default(obj)
	return obj, nil
}

// Completes reports whether a field at the root that has a default is absent: a status that was
// dropped, for example.
func (m *model) Completes(obj resource.Tree) bool {
	p, err := m.program()
	return err == nil && p.Completes(obj)
}

// Prune coerces metadata and drops fields that the schema does not specify; all else stays.
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

// Validate validates an object against its schema, the constraints of its scale subresource, and
// the rules in x-kubernetes-validations.
func (m *model) Validate(ctx context.Context, obj, old resource.Tree, subresource string) field.ErrorList {
	return m.ValidateAfter(ctx, nil, obj, old, subresource, nil)
}

// ValidateAfter is Validate for an object for which the caller already found errors, some of which
// make the evaluation of rules useless. Violations that the old object has too are passed to warn
// if it is not nil.
func (m *model) ValidateAfter(ctx context.Context, found field.ErrorList, obj, old resource.Tree, subresource string, warn func(string)) field.ErrorList {
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
		errs = p.Validate(ctx, obj, scale...)
	case subresource == "status":
		errs = p.ValidateStatus(ctx, obj, old, scale...)
	default:
		errs = p.ValidateUpdate(ctx, obj, old, scale...)
	}
	if ctx.Err() != nil {
		return errs
	}
	return append(errs, p.Evaluate(ctx, obj, old, slices.Concat(found, errs), warn)...)
}

// FieldTypes returns the types of all versions of the resource, because entries of managedFields
// name their own version.
func (m *model) FieldTypes() (func(gvk.GroupVersionKind) *fields.Type, error) { return m.types.types() }

// PatchMeta returns nil: custom resources have no strategic merge patch.
func (m *model) PatchMeta() strategicpatch.LookupPatchMeta { return nil }

// New returns nil: custom resources have no Go type.
func (m *model) New() runtime.Object { return nil }

// publish returns the schema of a version that OpenAPI documents show.
func publish(m *manifest, from *source, version string) *resource.Published {
	return &resource.Published{
		Fingerprint:           fmt.Sprintf("%s/%d/%s", m.Metadata.UID, m.Metadata.Generation, version),
		Schema:                func() ([]byte, error) { return rawSchema(from.newest.Load(), version) },
		PreserveUnknownFields: m.Spec.PreserveUnknownFields,
	}
}
