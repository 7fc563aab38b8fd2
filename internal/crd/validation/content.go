package validation

import (
	"maps"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
)

// content is what the schemas of a definition have anywhere.
type content struct {
	defaults   bool
	extensions bool // those that only structural schemas may have
	rules      bool
}

func contentOf(spec *apiextensions.CustomResourceDefinitionSpec) (c content) {
	each(spec, func(s *apiextensions.JSONSchemaProps) {
		c.defaults = c.defaults || s.Default != nil
		c.rules = c.rules || len(s.XValidations) > 0
		c.extensions = c.extensions || len(s.XValidations) > 0 || s.XEmbeddedResource || s.XPreserveUnknownFields != nil || s.XIntOrString ||
			len(s.XListMapKeys) > 0 || s.XListType != nil
	})
	return c
}

// each calls visit for all schemas of a definition.
func each(spec *apiextensions.CustomResourceDefinitionSpec, visit func(*apiextensions.JSONSchemaProps)) {
	for _, s := range roots(spec) {
		eachBelow(s, visit)
	}
}

// roots returns the schema of all versions, and those of each.
func roots(spec *apiextensions.CustomResourceDefinitionSpec) (all []*apiextensions.JSONSchemaProps) {
	if spec.Validation != nil && spec.Validation.OpenAPIV3Schema != nil {
		all = append(all, spec.Validation.OpenAPIV3Schema)
	}
	for i := range spec.Versions {
		if v := &spec.Versions[i]; v.Schema != nil && v.Schema.OpenAPIV3Schema != nil {
			all = append(all, v.Schema.OpenAPIV3Schema)
		}
	}
	return all
}

func eachBelow(s *apiextensions.JSONSchemaProps, visit func(*apiextensions.JSONSchemaProps)) {
	if s == nil {
		return
	}
	visit(s)
	for _, list := range [][]apiextensions.JSONSchemaProps{s.AllOf, s.AnyOf, s.OneOf} {
		for i := range list {
			eachBelow(&list[i], visit)
		}
	}
	eachBelow(s.Not, visit)
	if s.Items != nil {
		eachBelow(s.Items.Schema, visit)
		for i := range s.Items.JSONSchemas {
			eachBelow(&s.Items.JSONSchemas[i], visit)
		}
	}
	for _, other := range []*apiextensions.JSONSchemaPropsOrBool{s.AdditionalProperties, s.AdditionalItems} {
		if other != nil {
			eachBelow(other.Schema, visit)
		}
	}
	for _, named := range []map[string]apiextensions.JSONSchemaProps{s.Properties, s.PatternProperties, s.Definitions} {
		for _, below := range named {
			eachBelow(&below, visit)
		}
	}
	for _, d := range s.Dependencies {
		eachBelow(d.Schema, visit)
	}
}

// sortedNames returns the keys of a map in order, so that errors have one.
func sortedNames[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }
