package vet

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/kapok-dev/kapok/toolkit/generate"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// contradictions returns a problem for each part of a definition's schema that no value satisfies,
// which a server accepts.
func (l *locator) contradictions(definition *apiextensionsv1.CustomResourceDefinition) []generate.Problem {
	var problems []generate.Problem
	for i, version := range definition.Spec.Versions {
		if version.Schema == nil || version.Schema.OpenAPIV3Schema == nil {
			continue
		}
		walkSchema(fmt.Sprintf("spec.versions[%d].schema.openAPIV3Schema", i), version.Schema.OpenAPIV3Schema, func(path string, s *apiextensionsv1.JSONSchemaProps) {
			if part, fault := contradiction(s); fault != "" {
				problems = append(problems, l.problem(definition.Name, path+"."+part, short(path)+": "+fault))
			}
		})
	}
	return problems
}

// walkSchema calls do for a schema and those of its fields, items and values, with their paths.
func walkSchema(path string, s *apiextensionsv1.JSONSchemaProps, do func(path string, s *apiextensionsv1.JSONSchemaProps)) {
	do(path, s)
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		property := s.Properties[name]
		walkSchema(fmt.Sprintf("%s.properties[%s]", path, name), &property, do)
	}
	if s.Items != nil && s.Items.Schema != nil {
		walkSchema(path+".items", s.Items.Schema, do)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		walkSchema(path+".additionalProperties", s.AdditionalProperties.Schema, do)
	}
}

// contradiction returns the part of a schema, without those of its fields, that cannot be
// satisfied, and why; "" if there is none.
func contradiction(s *apiextensionsv1.JSONSchemaProps) (part, fault string) {
	for _, limits := range []struct {
		low, high   string
		least, most *int64
	}{
		{"minLength", "maxLength", s.MinLength, s.MaxLength},
		{"minItems", "maxItems", s.MinItems, s.MaxItems},
		{"minProperties", "maxProperties", s.MinProperties, s.MaxProperties},
	} {
		if limits.least != nil && limits.most != nil && *limits.least > *limits.most {
			return limits.low, fmt.Sprintf("no value is valid: %s is %d, and %s is %d", limits.low, *limits.least, limits.high, *limits.most)
		}
	}
	if s.Minimum != nil && s.Maximum != nil {
		if low, high := *s.Minimum, *s.Maximum; isEmpty(s, low, high) {
			return "minimum", fmt.Sprintf("no value is valid: minimum is %v%s, and maximum is %v%s", low, exclusive(s.ExclusiveMinimum), high, exclusive(s.ExclusiveMaximum))
		}
	}
	for _, limit := range []struct {
		name  string
		value *float64
	}{{"minimum", s.Minimum}, {"maximum", s.Maximum}} {
		if limit.value != nil && (s.Format == "int32" || s.Format == "uint32") && !inRange(*limit.value, s.Format) {
			return limit.name, fmt.Sprintf("no value is valid: %s is %.0f, which is out of the range of the format %s", limit.name, *limit.value, s.Format)
		}
	}
	if len(s.Enum) > 0 && !slices.ContainsFunc(s.Enum, func(value apiextensionsv1.JSON) bool { return isOf(value.Raw, s) }) {
		return "enum", fmt.Sprintf("no value is valid: the type is %s, and none of the enum's values is of this type", s.Type)
	}
	return "", ""
}

// isEmpty reports whether no number is within the limits of a schema.
func isEmpty(s *apiextensionsv1.JSONSchemaProps, low, high float64) bool {
	if s.Type != "integer" {
		return low > high || low == high && (s.ExclusiveMinimum || s.ExclusiveMaximum)
	}
	least, most := math.Ceil(low), math.Floor(high)
	if s.ExclusiveMinimum && least == low {
		least++
	}
	if s.ExclusiveMaximum && most == high {
		most--
	}
	return least > most
}

func exclusive(is bool) string {
	if is {
		return " (exclusive)"
	}
	return ""
}

// inRange reports whether a format has a number. A server rejects all values of a field with a
// limit that its format does not have.
func inRange(n float64, format string) bool {
	if format == "uint32" {
		return n >= 0 && n <= math.MaxUint32
	}
	return n >= math.MinInt32 && n <= math.MaxInt32
}

// isOf reports whether a value in JSON is of the type of a schema.
func isOf(raw []byte, s *apiextensionsv1.JSONSchemaProps) bool {
	var value any
	if err := json.Unmarshal(raw, &value); err != nil {
		return true // the server says so
	}
	switch value := value.(type) {
	case nil:
		return s.Nullable
	case string:
		return s.Type == "string" || s.Type == "" || s.XIntOrString
	case bool:
		return s.Type == "boolean" || s.Type == ""
	case float64:
		return s.Type == "number" || s.Type == "" || (s.Type == "integer" || s.XIntOrString) && value == float64(int64(value))
	}
	return true
}
