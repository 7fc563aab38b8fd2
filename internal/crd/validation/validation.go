// Package validation validates CustomResourceDefinitions as apiextensions-apiserver does: with the
// same errors, at the same fields, in the same words. Its tests compare both.
//
// The rules are written anew because the library's package imports tracing, gRPC and the clients of
// an aggregated server, converts the schemas several times, and compiles rules whose errors take
// gigabytes to format. Structural schemas, defaults and the compiler of rules are the library's.
//
// # Updates
//
// An update may leave what an older release accepted. All rules are applied first; only if that
// yields errors does the package look at what the old definition gets away with ([leniency]), and
// applies the rest.
//
// The package has no state and starts no goroutine.
package validation

import (
	"context"

	"github.com/kapok-dev/kapok/internal/celwork"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Create returns the errors of a new definition, except for those of its metadata that all kinds
// have in common. If ctx ends, it returns early, without all errors.
func Create(ctx context.Context, obj *apiextensions.CustomResourceDefinition) field.ErrorList {
	return newValidator(ctx, obj, nil, leniency{invalidBundles: true}).definition()
}

// Update returns the errors of a definition that replaces old, except for those of its metadata
// that all kinds have in common. If ctx ends, it returns early, without all errors.
func Update(ctx context.Context, obj, old *apiextensions.CustomResourceDefinition) field.ErrorList {
	if len(newValidator(ctx, obj, old, leniency{}).definition()) == 0 {
		return nil
	}
	return newValidator(ctx, obj, old, leniencyOf(obj, old)).definition()
}

// UpdateStatus returns the errors of the status of a definition.
func UpdateStatus(obj *apiextensions.CustomResourceDefinition) field.ErrorList {
	v := validator{obj: obj}
	v.status()
	return v.errs
}

// A validator collects the errors of one definition.
type validator struct {
	ctx      context.Context
	obj, old *apiextensions.CustomResourceDefinition // old is nil for a new definition
	leniency leniency

	// structural says that all schemas must be structural.
	structural bool
	content    content // of all schemas
	// shown bounds the work to show the lines of rules in errors.
	shown *celwork.Budget

	errs field.ErrorList
}

func newValidator(ctx context.Context, obj, old *apiextensions.CustomResourceDefinition, l leniency) *validator {
	v := &validator{ctx: ctx, obj: obj, old: old, leniency: l, content: contentOf(&obj.Spec), shown: celwork.NewBudget(ctx)}
	v.structural = !l.notStructural || prunes(&obj.Spec) || v.content.defaults || v.content.extensions
	return v
}

func (v *validator) add(errs ...*field.Error) { v.errs = append(v.errs, errs...) }

// definition returns all errors.
func (v *validator) definition() field.ErrorList {
	spec := field.NewPath("spec")
	v.spec(&v.obj.Spec, spec)
	if v.old != nil {
		v.immutable(&v.obj.Spec, &v.old.Spec, spec)
	}
	v.status()
	v.storedVersions(field.NewPath("status", "storedVersions"))
	v.approval()
	if (v.old == nil || !preservesUnknown(&v.old.Spec)) && preservesUnknown(&v.obj.Spec) {
		v.add(field.Invalid(spec.Child("preserveUnknownFields"), v.obj.Spec.PreserveUnknownFields,
			"cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"))
	}
	return v.errs
}

// prunes reports whether objects lose fields that the schema does not have. If the definition says
// nothing about it, both prunes and preserves are true: the stricter rules apply.
func prunes(spec *apiextensions.CustomResourceDefinitionSpec) bool {
	return spec.PreserveUnknownFields == nil || !*spec.PreserveUnknownFields
}

// preserves reports whether objects keep such fields.
func preserves(spec *apiextensions.CustomResourceDefinitionSpec) bool {
	return spec.PreserveUnknownFields == nil || *spec.PreserveUnknownFields
}

// preservesUnknown is preserves for definitions that say so.
func preservesUnknown(spec *apiextensions.CustomResourceDefinitionSpec) bool {
	return spec.PreserveUnknownFields != nil && *spec.PreserveUnknownFields
}

// immutable checks what the keys and the stored objects of the kind depend on.
func (v *validator) immutable(spec, old *apiextensions.CustomResourceDefinitionSpec, at *field.Path) {
	same := func(now, before any, at *field.Path) { v.add(apivalidation.ValidateImmutableField(now, before, at)...) }
	if apiextensions.IsCRDConditionTrue(v.old, apiextensions.Established) {
		same(spec.Scope, old.Scope, at.Child("scope"))
		same(spec.Names.Kind, old.Names.Kind, at.Child("names", "kind"))
	}
	same(spec.Group, old.Group, at.Child("group"))
	same(spec.Names.Plural, old.Names.Plural, at.Child("names", "plural"))
}

func (v *validator) status() {
	v.names(&v.obj.Status.AcceptedNames, field.NewPath("status", "acceptedNames"))
}

// storedVersions checks that each version in which objects may be stored exists.
func (v *validator) storedVersions(at *field.Path) {
	stored := v.obj.Status.StoredVersions
	if len(stored) == 0 {
		v.add(field.Invalid(at, stored, "must have at least one stored version"))
		return
	}
	last := map[string]int{}
	for i, name := range stored {
		last[name] = i
	}
	for _, version := range v.obj.Spec.Versions {
		if _, ok := last[version.Name]; !ok && version.Storage {
			v.add(field.Invalid(at, stored, "must have the storage version "+version.Name))
		}
		delete(last, version.Name)
	}
	for i, name := range stored {
		if at2, ok := last[name]; ok && at2 == i {
			v.add(field.Invalid(at.Index(i), name, "missing from spec.versions; "+name+" was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in "+name+" and removes "+name+" from status.storedVersions"))
		}
	}
}

// approval checks the annotation of definitions in the groups of the Kubernetes community.
func (v *validator) approval() {
	if !apihelpers.IsProtectedCommunityGroup(v.obj.Spec.Group) {
		return
	}
	state, reason := apihelpers.GetAPIApprovalState(v.obj.Annotations)
	if v.old != nil {
		if before, _ := apihelpers.GetAPIApprovalState(v.old.Annotations); before == state {
			return
		}
	}
	const annotation = apiextensionsv1beta1.KubeAPIApprovedAnnotation
	at := field.NewPath("metadata", "annotations").Key(annotation)
	switch state {
	case apihelpers.APIApproved, apihelpers.APIApprovalBypassed:
	case apihelpers.APIApprovalMissing:
		v.add(field.Required(at, reason))
	default:
		v.add(field.Invalid(at, v.obj.Annotations[annotation], reason))
	}
}
