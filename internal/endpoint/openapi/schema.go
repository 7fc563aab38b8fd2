package openapi

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"

	kindsopenapi "github.com/kapok-dev/kapok/internal/kinds/openapi"
)

// object is a JSON object. Schemas are kept as plain JSON: few fields are interpreted, and all
// others remain unchanged.
type object = map[string]any

func decodeObject(raw []byte) (object, error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var o object
	err := decoder.Decode(&o)
	return o, err
}

// encode returns JSON with sorted keys and without escapes for HTML.
func encode(v any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// visit calls f for the schema and for the schemas of its values: properties, items, additional
// properties.
func visit(s object, f func(object)) {
	f(s)
	if properties, ok := s["properties"].(object); ok {
		for _, property := range properties {
			visitAny(property, f)
		}
	}
	visitAny(s["items"], f)
	visitAny(s["additionalProperties"], f)
}

func visitAny(v any, f func(object)) {
	if s, ok := v.(object); ok {
		visit(s, f)
	}
}

// visitDeep calls f also for schemas in allOf, anyOf, oneOf and not.
func visitDeep(s object, f func(object)) {
	visit(s, func(s object) {
		f(s)
		for _, key := range []string{"allOf", "anyOf", "oneOf"} {
			list, _ := s[key].([]any)
			for _, v := range list {
				if s, ok := v.(object); ok {
					visitDeep(s, f)
				}
			}
		}
		if not, ok := s["not"].(object); ok {
			visitDeep(not, f)
		}
	})
}

func isTrue(s object, key string) bool {
	b, _ := s[key].(bool)
	return b
}

// dialect has the differences between schemas of the versions of OpenAPI.
type dialect struct {
	prefix string // of references
	two    bool
}

var (
	dialectTwo   = dialect{prefix: "#/definitions/", two: true}
	dialectThree = dialect{prefix: kindsopenapi.RefPrefix}
)

// reference returns a reference to a definition, with a description in the form that the version
// allows.
func (d dialect) reference(name, description string) object {
	ref := object{"$ref": d.prefix + name}
	switch {
	case description == "":
		return ref
	case d.two:
		ref["description"] = description
		return ref
	}
	return object{"allOf": []any{ref}, "description": description}
}

// of returns the schema for a definition, or for plain text.
func (d dialect) of(definition string) object {
	switch definition {
	case "":
		return object{"type": "object"}
	case plainText:
		return object{"type": "string"}
	}
	return d.reference(definition, "")
}

// builtin returns the JSON of the definition of a built-in kind.
func (d dialect) builtin(name string) ([]byte, error) {
	raw, _ := kindsopenapi.Builtin().Raw(name)
	if !d.two {
		return []byte(raw), nil
	}
	if raw, ok := kindsopenapi.Builtin().RawV2(name); ok {
		return []byte(raw), nil
	}
	s, err := decodeObject([]byte(raw))
	if err != nil {
		return nil, err
	}
	visitDeep(s, func(s object) {
		delete(s, "default")
		if all, ok := s["allOf"].([]any); ok && len(all) == 1 {
			if only, ok := all[0].(object); ok && only["$ref"] != nil {
				s["$ref"] = only["$ref"]
				delete(s, "allOf")
			}
		}
		if ref, ok := s["$ref"].(string); ok {
			s["$ref"] = d.prefix + ref[len(kindsopenapi.RefPrefix):]
		}
	})
	return encode(s)
}

// intOrString is the schema for the extension of that name.
func intOrString() []any {
	return []any{object{"type": "integer"}, object{"type": "string"}}
}

// unfold adds the plain schema for x-kubernetes-int-or-string.
func unfold(s object) {
	visit(s, func(s object) {
		if !isTrue(s, "x-kubernetes-int-or-string") || reflect.DeepEqual(s["anyOf"], intOrString()) {
			return
		}
		all, _ := s["allOf"].([]any)
		if len(all) > 0 {
			if first, ok := all[0].(object); ok && reflect.DeepEqual(first["anyOf"], intOrString()) {
				return
			}
		}
		if s["anyOf"] == nil {
			s["anyOf"] = intOrString()
		} else {
			s["allOf"] = append([]any{object{"anyOf": intOrString()}}, all...)
		}
	})
}

// simplify removes keywords that OpenAPI v2 does not have, and those with which kubectl would
// reject valid values: it treats a list of properties as complete.
func simplify(s object) {
	visit(s, func(s object) {
		for _, key := range []string{"allOf", "anyOf", "oneOf", "not", "default"} {
			delete(s, key)
		}
		unknown := isTrue(s, "x-kubernetes-preserve-unknown-fields")
		nullable := isTrue(s, "nullable")
		if nullable || unknown {
			delete(s, "items")
			delete(s, "properties")
		}
		if nullable || unknown && s["type"] == "object" || s["items"] == nil && s["type"] == "array" {
			delete(s, "type")
		}
		delete(s, "nullable")
		// A null counts as absent, so that such a field cannot be required.
		if properties, ok := s["properties"].(object); ok {
			required, _ := s["required"].([]any)
			required = slices.DeleteFunc(required, func(name any) bool {
				key, _ := name.(string)
				property, _ := properties[key].(object)
				return isTrue(property, "nullable")
			})
			setRequired(s, required)
		}
		if additional, ok := s["additionalProperties"].(object); ok && isTrue(additional, "nullable") {
			delete(s, "required")
		}
	})
}

func setRequired(s object, required []any) {
	if len(required) == 0 {
		delete(s, "required")
	} else {
		s["required"] = required
	}
}
