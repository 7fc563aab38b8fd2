package crd

import (
	"context"
	"fmt"
	"slices"

	"github.com/kapok-dev/kapok/internal/crd/validation"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/schema/expression"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	apiservervalidation "k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// validateKind validates a CustomResourceDefinition in its internal form. The caller applies the
// rules on ObjectMeta, except for the one of this kind: that the name is spec.names.plural and
// spec.group. It returns early, without all errors, if ctx ends.
func validateKind(ctx context.Context, obj, old *apiextensions.CustomResourceDefinition, subresource string, version schema.GroupVersion) (errs field.ErrorList) {
	expression.Environments() // the library uses them too
	// The library panics on some schemas, such as those with values that have no type.
	defer func() {
		if r := recover(); r != nil {
			errs = field.ErrorList{field.InternalError(field.NewPath("spec"), fmt.Errorf("cannot be validated: %v", r))}
		}
	}()
	if subresource != "status" {
		if errs := validateVisits(obj, old); len(errs) > 0 {
			return errs
		}
	}
	switch lenient := isLenient(obj, old, version); {
	case subresource == "status":
		return validation.UpdateStatus(obj)
	case old == nil && lenient:
		errs = validation.Update(ctx, obj, lenientOld(obj))
	case old == nil:
		errs = validation.Create(ctx, obj)
	case lenient:
		errs = validation.Update(ctx, obj, lenientOld(old))
	default:
		errs = validation.Update(ctx, obj, old)
	}
	if old == nil {
		errs = append(validateName(obj), errs...)
	}
	return errs
}

// validateName checks that both names of a new definition match its spec. The caller reports an
// absent name.
func validateName(obj *apiextensions.CustomResourceDefinition) (errs field.ErrorList) {
	want, path := obj.Spec.Names.Plural+"."+obj.Spec.Group, field.NewPath("metadata")
	for _, name := range []struct{ key, value string }{{"generateName", obj.GenerateName}, {"name", obj.Name}} {
		if name.value != "" && name.value != want {
			errs = append(errs, field.Invalid(path.Child(name.key), name.value, `must be spec.names.plural+"."+spec.group`))
		}
	}
	return errs
}

// isLenient reports whether the rules of v1beta1 apply: schemas are optional, and objects may keep
// fields that the schema does not specify.
func isLenient(obj, old *apiextensions.CustomResourceDefinition, version schema.GroupVersion) bool {
	preserves := func(c *apiextensions.CustomResourceDefinition) bool {
		return c.Spec.PreserveUnknownFields != nil && *c.Spec.PreserveUnknownFields
	}
	return version == apiextensionsv1beta1.SchemeGroupVersion && preserves(obj) && (old == nil || preserves(old))
}

// lenientOld returns a definition to pass to the library as the old object of a create. The library
// exempts updates from the rules that the old definition breaks, and so this one breaks those that
// v1beta1 does not have.
func lenientOld(of *apiextensions.CustomResourceDefinition) *apiextensions.CustomResourceDefinition {
	old := of.DeepCopy()
	preserve := true
	old.Spec.PreserveUnknownFields = &preserve
	old.Spec.Validation = nil
	old.Spec.Versions = []apiextensions.CustomResourceDefinitionVersion{
		{Name: "unspecified"},
		{Name: "unstructured", Schema: &apiextensions.CustomResourceValidation{OpenAPIV3Schema: &apiextensions.JSONSchemaProps{}}},
	}
	return old
}

// kindWarnings returns warnings about parts of a schema that have no effect, unless the old schema
// has them too.
func kindWarnings(obj, old resource.Tree) []string {
	warnings := schemaWarnings(obj)
	if old == nil || len(warnings) == 0 {
		return warnings
	}
	before := map[string]bool{} // a schema can have as many warnings as fields
	for _, w := range schemaWarnings(old) {
		before[w] = true
	}
	return slices.DeleteFunc(warnings, func(w string) bool { return before[w] })
}

func schemaWarnings(obj resource.Tree) []string {
	var formats, sets []string
	compatible := environment.DefaultCompatibilityVersion()
	visit := func(s resource.Tree) {
		kind, _ := s["type"].(string)
		if format, _ := s["format"].(string); format != "" {
			judged := &spec.Schema{SchemaProps: spec.SchemaProps{Format: format, Type: []string{kind}}}
			for _, unknown := range apiservervalidation.GetUnrecognizedFormats(judged, compatible) {
				formats = append(formats, fmt.Sprintf("unrecognized format %q", unknown))
			}
		}
		items, _ := s["items"].(map[string]any)
		if t := items["type"]; s["x-kubernetes-list-type"] == "set" && (t == "object" || t == "array") {
			sets = append(sets, fmt.Sprintf("x-kubernetes-list-type: set for items of type %q is not supported by server-side apply or CEL validation rules", t))
		}
	}
	top, _ := follow(obj, []string{"spec", "validation", "openAPIV3Schema"})
	eachSchema(top, visit)
	for _, v := range versionsOf(obj) {
		s, _ := follow(v, []string{"schema", "openAPIV3Schema"})
		eachSchema(s, visit)
	}
	slices.Sort(sets)
	return append(formats, slices.Compact(sets)...)
}

// eachSchema calls visit for a schema and for all schemas below it, in a fixed order.
func eachSchema(schema any, visit func(resource.Tree)) {
	s, ok := schema.(map[string]any)
	if !ok {
		return
	}
	visit(s)
	for _, key := range []string{"items", "not", "additionalProperties", "additionalItems"} {
		eachSchema(s[key], visit)
	}
	for _, key := range []string{"allOf", "anyOf", "oneOf"} {
		list, _ := s[key].([]any)
		for _, item := range list {
			eachSchema(item, visit)
		}
	}
	for _, key := range []string{"properties", "patternProperties", "definitions", "dependencies"} {
		m, _ := s[key].(map[string]any)
		for _, name := range sortedKeys(m) {
			eachSchema(m[name], visit)
		}
	}
}

func sortedKeys(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
