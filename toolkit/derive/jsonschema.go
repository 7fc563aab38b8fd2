package derive

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/controller-tools/pkg/genall"
	"sigs.k8s.io/controller-tools/pkg/markers"
)

// JSONSchema generates a JSON schema (draft 7) for each version of a kind, which editors and
// linters use to complete and check manifests: GROUP/KIND_VERSION.json in lower case, as
// yaml-language-server and kubeconform expect it. As in kubectl's strict validation, a field that
// the kind does not have is an error.
type JSONSchema options

var (
	_ genall.Generator         = JSONSchema{}
	_ genall.NeedsTypeChecking = JSONSchema{}
)

// Help implements genall.HasHelp.
func (JSONSchema) Help() *markers.DefinitionHelp {
	return help("generates JSON schemas for editors: GROUP/KIND_VERSION.json")
}

// Generate implements genall.Generator.
func (g JSONSchema) Generate(c *genall.GenerationContext) error {
	for _, k := range kindsOf(c, options(g)) {
		root := document(k)
		data, err := json.MarshalIndent(root, "", "  ")
		if err != nil {
			return fmt.Errorf("encode the schema of %s: %w", k.name, err)
		}
		name := strings.ToLower(fmt.Sprintf("%s/%s_%s.json", k.group, k.name, k.version))
		if err := write(c, name, append(data, '\n')); err != nil {
			return err
		}
	}
	return nil
}

// document returns the JSON schema of a kind.
func document(k kind) map[string]any {
	root := jsonSchema(k.schema)
	root["$schema"] = "http://json-schema.org/draft-07/schema#"
	root["title"] = k.name
	properties, _ := root["properties"].(map[string]any)
	if properties == nil {
		properties = map[string]any{}
		root["properties"] = properties
	}
	properties["apiVersion"] = map[string]any{"type": "string", "enum": []any{k.apiVersion()}}
	properties["kind"] = map[string]any{"type": "string", "enum": []any{k.name}}
	properties["metadata"] = map[string]any{"type": "object"}
	required := append([]string{"apiVersion", "kind", "metadata"}, k.schema.Required...)
	slices.Sort(required)
	root["required"] = slices.Compact(required)
	return root
}

// jsonSchema returns a schema of a definition as a JSON schema.
func jsonSchema(s *schema) map[string]any {
	out := map[string]any{}
	set := func(key string, value any, isSet bool) {
		if isSet {
			out[key] = value
		}
	}
	switch {
	case s.XIntOrString:
		out["type"] = []any{"integer", "string"}
	case s.Type != "" && s.Nullable:
		out["type"] = []any{s.Type, "null"}
	case s.Type != "":
		out["type"] = s.Type
	}
	if s.XIntOrString && s.Nullable {
		out["type"] = []any{"integer", "string", "null"}
	}
	set("description", s.Description, s.Description != "")
	set("format", s.Format, s.Format != "" && !strings.HasPrefix(s.Format, "int"))
	set("pattern", s.Pattern, s.Pattern != "")
	set("minLength", s.MinLength, s.MinLength != nil)
	set("maxLength", s.MaxLength, s.MaxLength != nil)
	set("minItems", s.MinItems, s.MinItems != nil)
	set("maxItems", s.MaxItems, s.MaxItems != nil)
	set("minProperties", s.MinProperties, s.MinProperties != nil)
	set("maxProperties", s.MaxProperties, s.MaxProperties != nil)
	set("uniqueItems", true, s.UniqueItems || s.XListType != nil && *s.XListType == "set")
	set("multipleOf", s.MultipleOf, s.MultipleOf != nil)
	set("required", s.Required, len(s.Required) > 0)
	if s.Minimum != nil {
		out[bound("inimum", s.ExclusiveMinimum, "m", "exclusiveM")] = *s.Minimum
	}
	if s.Maximum != nil {
		out[bound("aximum", s.ExclusiveMaximum, "m", "exclusiveM")] = *s.Maximum
	}
	if s.Default != nil {
		out["default"] = json.RawMessage(s.Default.Raw)
	}
	if len(s.Enum) > 0 {
		var values []any
		for _, v := range s.Enum {
			values = append(values, json.RawMessage(v.Raw))
		}
		out["enum"] = values
	}
	if len(s.Properties) > 0 {
		properties := map[string]any{}
		for name := range s.Properties {
			field := s.Properties[name]
			properties[name] = jsonSchema(&field)
		}
		if s.XEmbeddedResource {
			for _, name := range []string{"apiVersion", "kind"} {
				properties[name] = map[string]any{"type": "string"}
			}
			properties["metadata"] = map[string]any{"type": "object"}
		}
		out["properties"] = properties
		if !isTrue(s.XPreserveUnknownFields) {
			out["additionalProperties"] = false
		}
	}
	if s.XEmbeddedResource {
		out["required"] = slices.Compact(slices.Sorted(slices.Values(append([]string{"apiVersion", "kind"}, s.Required...))))
	}
	if a := s.AdditionalProperties; a != nil {
		if a.Schema != nil {
			out["additionalProperties"] = jsonSchema(a.Schema)
		} else {
			out["additionalProperties"] = a.Allows
		}
	}
	if s.Items != nil && s.Items.Schema != nil {
		out["items"] = jsonSchema(s.Items.Schema)
	}
	for key, list := range map[string][]schema{"allOf": s.AllOf, "oneOf": s.OneOf, "anyOf": s.AnyOf} {
		if key == "anyOf" && s.XIntOrString {
			continue // the two types, which type has
		}
		var parts []any
		for i := range list {
			parts = append(parts, partial(&list[i]))
		}
		set(key, parts, len(parts) > 0)
	}
	if s.Not != nil {
		out["not"] = partial(s.Not)
	}
	return out
}

// partial is the schema of a condition, which does not define fields: others may be there.
func partial(s *schema) map[string]any {
	out := jsonSchema(s)
	open(out)
	return out
}

// open allows more fields in a schema and those of its fields.
func open(s map[string]any) {
	if s["additionalProperties"] == false {
		delete(s, "additionalProperties")
	}
	properties, _ := s["properties"].(map[string]any)
	for _, field := range properties {
		if field, ok := field.(map[string]any); ok {
			open(field)
		}
	}
	if items, ok := s["items"].(map[string]any); ok {
		open(items)
	}
}

func bound(rest string, exclusive bool, inclusivePrefix, exclusivePrefix string) string {
	if exclusive {
		return exclusivePrefix + rest
	}
	return inclusivePrefix + rest
}

// help returns the help of a generator.
func help(summary string) *markers.DefinitionHelp {
	return &markers.DefinitionHelp{
		DetailedHelp: markers.DetailedHelp{Summary: summary},
		FieldHelp: map[string]markers.DetailedHelp{
			"AllowDangerousTypes":        {Summary: "allows floats, as in crd"},
			"GenerateEmbeddedObjectMeta": {Summary: "gives embedded metadata its fields, as in crd"},
			"Format":                     {Summary: "is markdown (default) or html"},
		},
	}
}
