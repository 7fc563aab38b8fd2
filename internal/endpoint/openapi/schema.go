package openapi

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"

	builtin "github.com/kapok-dev/kapok/internal/builtin/openapi"
)

// object is a JSON object. Schemas are handled as plain JSON here: little has to be understood of them, and all of the
// rest has to stay as it is.
type object = map[string]any

func decodeObject(raw []byte) (object, error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var o object
	err := decoder.Decode(&o)
	return o, err
}

// encode is JSON with sorted keys, and without the escapes that only web pages need.
func encode(v any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// visit calls f for the schema and then for the schemas of the values in it: properties, items, additional properties.
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

// visitDeep calls f also for the schemas that are combined into one: allOf, anyOf, oneOf, not.
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

// dialect is what differs in schemas between the versions of OpenAPI.
type dialect struct {
	prefix string // of references
	two    bool
}

var (
	dialectTwo   = dialect{prefix: "#/definitions/", two: true}
	dialectThree = dialect{prefix: builtin.RefPrefix}
)

// reference refers to a definition and, as each version allows it, describes what is there.
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

// of is the schema of what a definition describes, or of plain text.
func (d dialect) of(definition string) object {
	switch definition {
	case "":
		return object{"type": "object"}
	case plainText:
		return object{"type": "string"}
	}
	return d.reference(definition, "")
}

// builtin is the JSON of the definition of a built-in kind.
func (d dialect) builtin(name string) ([]byte, error) {
	raw, _ := builtin.Builtin().Raw(name)
	if !d.two {
		return []byte(raw), nil
	}
	if raw, ok := builtin.Builtin().RawV2(name); ok {
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
			s["$ref"] = d.prefix + ref[len(builtin.RefPrefix):]
		}
	})
	return encode(s)
}

// intOrString is what the extension of that name stands for.
func intOrString() []any {
	return []any{object{"type": "integer"}, object{"type": "string"}}
}

// unfold says in plain schema what x-kubernetes-int-or-string says.
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

// simplify takes out what OpenAPI v2 does not have, and what makes kubectl refuse a value that it should not judge:
// it takes a list of properties for complete.
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
		// A null is as good as nothing, so that such a field cannot be required.
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
