package crd

import (
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
)

// nested returns a schema of the given number of levels, with a rule or a default at each.
func nested(levels int, rule, fallback bool) *apiextensions.JSONSchemaProps {
	s := &apiextensions.JSONSchemaProps{Type: "string"}
	for range levels {
		s = &apiextensions.JSONSchemaProps{Type: "object", Properties: map[string]apiextensions.JSONSchemaProps{"a": *s}}
		if rule {
			s.XValidations = apiextensions.ValidationRules{{Rule: "true"}}
		}
		if fallback {
			empty := apiextensions.JSON(map[string]any{})
			s.Default = &empty
		}
	}
	return &apiextensions.JSONSchemaProps{Type: "object", Properties: map[string]apiextensions.JSONSchemaProps{"spec": *s}}
}

// rules returns a schema with n rules.
func rules(n int) *apiextensions.JSONSchemaProps {
	s := nested(1, false, false)
	for range n {
		s.XValidations = append(s.XValidations, apiextensions.ValidationRule{Rule: "true"})
	}
	return s
}

func definitionOf(schemas ...*apiextensions.JSONSchemaProps) *apiextensions.CustomResourceDefinition {
	d := &apiextensions.CustomResourceDefinition{}
	for _, s := range schemas {
		d.Spec.Versions = append(d.Spec.Versions, apiextensions.CustomResourceDefinitionVersion{
			Schema: &apiextensions.CustomResourceValidation{OpenAPIV3Schema: s},
		})
	}
	return d
}

// copying returns a schema with rules whose macros copy their receivers.
func copying(chained, rules int) *apiextensions.JSONSchemaProps {
	expression := "optional.of(true)" + strings.Repeat(".optMap(x, x)", chained) + ".hasValue()"
	s := &apiextensions.JSONSchemaProps{Type: "object"}
	for i := range rules {
		s.XValidations = append(s.XValidations, apiextensions.ValidationRule{Rule: expression})
		if i%2 == 0 {
			s.XValidations[i] = apiextensions.ValidationRule{Rule: "true", MessageExpression: expression}
		}
	}
	return s
}

// TestVisitsAreBounded checks the bound on the work of validating rules and defaults, which grows
// with the square of the depth.
func TestVisitsAreBounded(t *testing.T) {
	deep := definitionOf(nested(2000, true, true))
	tests := []struct {
		name     string
		obj, old *apiextensions.CustomResourceDefinition
		allowed  bool
	}{
		{"rules at a usual depth", definitionOf(nested(30, true, true)), nil, true},
		{"deep without rules", definitionOf(nested(5000, false, false)), nil, true},
		{"rules in depth", definitionOf(nested(600, true, false)), nil, false},
		{"defaults in depth", definitionOf(nested(1200, false, true)), nil, false},
		{"each version within the limit, not their total", definitionOf(nested(280, true, false), nested(280, true, false)), nil, false},
		{"many rules at one place", definitionOf(rules(1000)), nil, true},
		{"too many rules at one place", definitionOf(rules(3000)), nil, false},
		{"rules that copy", definitionOf(copying(4, 10)), nil, true},
		{"a rule that copies too much", definitionOf(copying(9, 1)), nil, false},
		{"many rules that copy", definitionOf(copying(6, 100)), nil, false},
		{"stored before", deep, deep, true},
		{"stored, and one level more", definitionOf(nested(2001, true, true)), deep, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			errs := validateVisits(tt.obj, tt.old)
			if allowed := len(errs) == 0; allowed != tt.allowed {
				t.Fatalf("allowed: %v, want %v; visits %d, errors %v", allowed, tt.allowed, visitsOf(tt.obj), errs)
			}
		})
	}
	errs := validateKind(t.Context(), definitionOf(nested(600, true, false)), nil, "", apiextensions.SchemeGroupVersion)
	if len(errs) == 0 || !strings.Contains(errs.ToAggregate().Error(), "must be at most 200000") {
		t.Errorf("validateKind does not reject it: %v", errs)
	}
}

// TestCountVisits checks that all places for schemas in a schema count.
func TestCountVisits(t *testing.T) {
	leaf := apiextensions.JSONSchemaProps{Type: "string"}
	below := map[string]apiextensions.JSONSchemaProps{"a": leaf, "b": leaf}
	s := &apiextensions.JSONSchemaProps{
		XValidations:         apiextensions.ValidationRules{{Rule: "true"}},
		Not:                  &leaf,
		AllOf:                []apiextensions.JSONSchemaProps{leaf},
		AnyOf:                []apiextensions.JSONSchemaProps{leaf, leaf},
		OneOf:                []apiextensions.JSONSchemaProps{leaf},
		Properties:           below,
		PatternProperties:    below,
		Definitions:          below,
		Items:                &apiextensions.JSONSchemaPropsOrArray{Schema: &leaf, JSONSchemas: []apiextensions.JSONSchemaProps{leaf}},
		AdditionalProperties: &apiextensions.JSONSchemaPropsOrBool{Schema: &leaf},
		AdditionalItems:      &apiextensions.JSONSchemaPropsOrBool{Schema: &leaf},
	}
	visits := 0
	want := ruleVisits + visitsFor("true") + 16*schemaVisits
	if size := countVisits(s, &visits); size != 16 || visits != want {
		t.Errorf("%d schemas and %d visits, want 16 and %d", size, visits, want)
	}
}
