package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	kindsopenapi "github.com/kapok-dev/kapok/internal/kinds/openapi"
)

// documentV3 is the OpenAPI v3 document of a part, as JSON.
func (p *part) documentV3() ([]byte, error) {
	operations := p.operations()
	schemas, err := p.schemas(dialectThree, definitions(operations))
	if err != nil {
		return nil, err
	}
	paths := object{}
	for _, item := range pathItems(operations) {
		paths[item.path] = item.v3()
	}
	info := object{"title": "Kubernetes", "version": p.version}
	components := map[string]json.RawMessage{}
	if p.custom() {
		info = object{"title": "Kubernetes CRD Swagger", "version": "v0.1.0"}
	} else if components["securitySchemes"], err = encode(bearerToken()); err != nil {
		return nil, err
	}
	components["schemas"] = encodeRaw(schemas)
	document := map[string]json.RawMessage{"openapi": json.RawMessage(`"3.0.0"`), "components": encodeRaw(components)}
	if document["info"], err = encode(info); err != nil {
		return nil, err
	}
	if document["paths"], err = encode(paths); err != nil {
		return nil, err
	}
	return encodeRaw(document), nil
}

func bearerToken() object {
	return object{"BearerToken": object{"type": "apiKey", "in": "header", "name": "authorization", "description": "Bearer Token authentication"}}
}

// schemas returns the definitions with the given names and all that they refer to.
func (p *part) schemas(d dialect, names []string) (map[string]json.RawMessage, error) {
	schemas := map[string]json.RawMessage{}
	for _, r := range p.resources {
		if r.Custom == nil {
			continue
		}
		custom, err := r.customDefinitions(d)
		if err != nil {
			return nil, err
		}
		for name, raw := range custom {
			schemas[name] = raw
		}
		names = append(names, metaV1+"ObjectMeta", metaV1+"ListMeta")
	}
	for _, name := range kindsopenapi.Builtin().Reachable(names...) {
		raw, err := d.builtin(name)
		if err != nil {
			return nil, fmt.Errorf("definition %s: %w", name, err)
		}
		if !d.two && (name == metaV1+"DeleteOptions" || name == metaV1+"WatchEvent") {
			if raw, err = p.ownKinds(raw); err != nil {
				return nil, fmt.Errorf("definition %s: %w", name, err)
			}
		}
		schemas[name] = raw
	}
	return schemas, nil
}

// ownKinds reduces the kinds of a definition that all groups share to those of the part and of the
// core group.
func (p *part) ownKinds(raw []byte) ([]byte, error) {
	s, err := decodeObject(raw)
	if err != nil {
		return nil, err
	}
	kinds, _ := s[keyKinds].([]any)
	s[keyKinds] = slices.DeleteFunc(kinds, func(v any) bool {
		kind, _ := v.(object)
		group, _ := kind["group"].(string)
		version, _ := kind["version"].(string)
		own := Resource{Group: group, Version: version}
		return own.root() != p.name && own.root() != "api/v1"
	})
	return encode(s)
}

// encodeRaw encodes an object whose values are encoded already; encoding/json would parse them
// again.
func encodeRaw(values map[string]json.RawMessage) json.RawMessage {
	var out bytes.Buffer
	out.WriteByte('{')
	for i, key := range slices.Sorted(maps.Keys(values)) {
		if i > 0 {
			out.WriteByte(',')
		}
		name, _ := encode(key) // a string
		out.Write(name)
		out.WriteByte(':')
		out.Write(values[key])
	}
	out.WriteByte('}')
	return out.Bytes()
}

func (item *pathItem) v3() object {
	rendered := object{}
	if len(item.parameters) > 0 {
		rendered["parameters"] = parametersV3(item.parameters)
	}
	for _, o := range item.operations {
		rendered[o.key()] = o.v3()
	}
	return rendered
}

func parametersV3(parameters []parameter) []object {
	var rendered []object
	for _, p := range parameters {
		r := p.common()
		r["schema"] = object{"type": p.typ, "uniqueItems": true}
		rendered = append(rendered, r)
	}
	return rendered
}

func (o *operation) v3() object {
	rendered := o.common()
	if len(o.parameters) > 0 {
		rendered["parameters"] = parametersV3(o.parameters)
	}
	if o.body != nil {
		request := object{"content": contentV3(o.consumes, o.body.definition)}
		if o.body.required {
			request["required"] = true
		}
		rendered["requestBody"] = request
	}
	responses := object{"401": object{"description": statusText(401)}}
	for _, code := range o.answers {
		responses[strconv.Itoa(code)] = object{"description": statusText(code), "content": contentV3(o.produces, o.answer)}
	}
	rendered["responses"] = responses
	return rendered
}

func contentV3(types []string, definition string) object {
	content := object{}
	for _, typ := range types {
		content[typ] = object{"schema": dialectThree.of(definition)}
	}
	return content
}
