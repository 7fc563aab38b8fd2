package openapi

import (
	"encoding/base64"
	"encoding/json"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// fragment is the contribution of a part to the OpenAPI v2 document.
type fragment struct {
	paths, parameters, schemas map[string]json.RawMessage
	definitions                []string // of built-in kinds that the fragment refers to
}

func newFragment() *fragment {
	return &fragment{
		paths:      map[string]json.RawMessage{},
		parameters: map[string]json.RawMessage{},
		schemas:    map[string]json.RawMessage{},
	}
}

// fragmentV2 returns the fragment of the part.
func (p *part) fragmentV2() (*fragment, error) {
	operations := p.operations()
	f := p.needsV2(operations)
	for _, item := range pathItems(operations) {
		raw, err := item.v2(f)
		if err != nil {
			return nil, err
		}
		f.paths[item.path] = raw
	}
	for _, r := range p.resources {
		if r.Custom == nil {
			continue
		}
		custom, err := r.customDefinitions(dialectTwo)
		if err != nil {
			return nil, err
		}
		for name, raw := range custom {
			f.schemas[name] = raw
		}
	}
	return f, nil
}

// needsV2 is a fragment that has only references to definitions of built-in kinds; other names are
// ignored.
func (p *part) needsV2(operations []operation) *fragment {
	f := newFragment()
	f.definitions = definitions(operations)
	if slices.ContainsFunc(p.resources, func(r *Resource) bool { return r.Custom != nil }) {
		f.definitions = append(f.definitions, metaV1+"ObjectMeta", metaV1+"ListMeta")
	}
	return f
}

// sharedV2 is a fragment with only what it shares with others: references and parameters.
func (p *part) sharedV2() (*fragment, error) {
	operations := p.operations()
	f := p.needsV2(operations)
	for _, item := range pathItems(operations) {
		if _, err := f.parametersV2(item.parameters, nil); err != nil {
			return nil, err
		}
		for _, o := range item.operations {
			if _, err := f.parametersV2(o.parameters, o.body); err != nil {
				return nil, err
			}
		}
	}
	return f, nil
}

// frame is the document without the contributions of the parts.
func frame(version string) map[string]any {
	return map[string]any{
		"swagger":             "2.0",
		"info":                object{"title": "Kubernetes", "version": version},
		"securityDefinitions": bearerToken(),
		"security":            []any{object{"BearerToken": []any{}}},
	}
}

// documentV2 combines fragments. They contain the schemas of their own kinds; the schemas of
// built-in kinds, which many share, are added here.
func documentV2(version string, fragments []*fragment) ([]byte, error) {
	whole := merge(fragments)
	shared := &part{}
	schemas, err := shared.schemas(dialectTwo, whole.definitions)
	if err != nil {
		return nil, err
	}
	maps.Copy(schemas, whole.schemas)
	document := map[string]json.RawMessage{}
	for key, value := range frame(version) {
		if document[key], err = encode(value); err != nil {
			return nil, err
		}
	}
	document["paths"] = encodeRaw(whole.paths)
	document["parameters"] = encodeRaw(whole.parameters)
	document["definitions"] = encodeRaw(schemas)
	return encodeRaw(document), nil
}

func merge(fragments []*fragment) *fragment {
	whole := newFragment()
	for _, f := range fragments {
		maps.Copy(whole.paths, f.paths)
		maps.Copy(whole.parameters, f.parameters)
		maps.Copy(whole.schemas, f.schemas)
		whole.definitions = append(whole.definitions, f.definitions...)
	}
	slices.Sort(whole.definitions)
	whole.definitions = slices.Compact(whole.definitions)
	return whole
}

func (item *pathItem) v2(f *fragment) (json.RawMessage, error) {
	rendered := object{}
	if len(item.parameters) > 0 {
		parameters, err := f.parametersV2(item.parameters, nil)
		if err != nil {
			return nil, err
		}
		rendered["parameters"] = parameters
	}
	for _, o := range item.operations {
		operation, err := o.v2(f)
		if err != nil {
			return nil, err
		}
		rendered[o.key()] = operation
	}
	return encode(rendered)
}

func (o *operation) v2(f *fragment) (object, error) {
	rendered := o.common()
	rendered["consumes"], rendered["produces"], rendered["schemes"] = o.consumes, o.produces, []string{"https"}
	if len(o.parameters) > 0 || o.body != nil {
		parameters, err := f.parametersV2(o.parameters, o.body)
		if err != nil {
			return nil, err
		}
		rendered["parameters"] = parameters
	}
	responses := object{"401": object{"description": statusText(401)}}
	for _, code := range o.answers {
		responses[strconv.Itoa(code)] = object{"description": statusText(code), "schema": dialectTwo.of(o.answer)}
	}
	rendered["responses"] = responses
	return rendered, nil
}

// parametersV2 renders parameters, sorted by name; the body is one of them. Parameters of many
// operations are described once for the whole document and referred to, except those that kubectl
// looks for in the operation itself.
func (f *fragment) parametersV2(parameters []parameter, b *body) ([]object, error) {
	parameters = slices.Clone(parameters)
	if b != nil {
		parameters = append(parameters, parameter{name: "body", in: "body"})
		slices.SortFunc(parameters, compareParameters)
	}
	var rendered []object
	for _, parameter := range parameters {
		p := parameter.common()
		var shared bool
		if parameter.in == "body" {
			p["schema"] = dialectTwo.of(b.definition)
			if b.required {
				p["required"] = true
			}
			shared = strings.HasPrefix(b.definition, "io.k8s.apimachinery")
		} else {
			p["type"], p["uniqueItems"] = parameter.typ, true
			shared = parameter.name != "name" && parameter.name != "fieldValidation" && parameter.name != "dryRun"
		}
		if shared {
			raw, err := encode(p)
			if err != nil {
				return nil, err
			}
			name := parameter.name + "-" + shortHash(raw)
			f.parameters[name] = raw
			p = object{"$ref": "#/parameters/" + name}
		}
		rendered = append(rendered, p)
	}
	return rendered, nil
}

func shortHash(raw []byte) string {
	hash := fnv.New64()
	hash.Write(raw) // never fails
	return base64.URLEncoding.EncodeToString(hash.Sum(nil)[:6])
}
