package importcrd

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// differences returns in which parts the spec of a definition that was made from Go types differs
// from the imported one, as paths with a word about each. The descriptions of apiVersion, kind and
// metadata are those of Kubernetes, and conversion is configured elsewhere: they are not compared.
func differences(imported, made *apiextensionsv1.CustomResourceDefinition) ([]string, error) {
	var trees [2]map[string]any
	for i, crd := range []*apiextensionsv1.CustomResourceDefinition{imported, made} {
		data, err := json.Marshal(&crd.Spec)
		if err != nil {
			return nil, fmt.Errorf("encode %s: %w", crd.Name, err)
		}
		if err := json.Unmarshal(data, &trees[i]); err != nil {
			return nil, fmt.Errorf("decode %s: %w", crd.Name, err)
		}
		normalize(trees[i])
	}
	var found []string
	compare("", trees[0], trees[1], &found)
	return found, nil
}

// normalize drops from the tree of a spec what has no meaning: defaults that are spelled out, and
// what types do not say.
func normalize(spec map[string]any) {
	delete(spec, "conversion")
	delete(spec, "preserveUnknownFields")
	names, _ := spec["names"].(map[string]any)
	kind, _ := names["kind"].(string)
	if names["listKind"] == nil {
		names["listKind"] = kind + "List"
	}
	if names["singular"] == nil || names["singular"] == "" {
		names["singular"] = strings.ToLower(kind)
	}
	byName := map[string]any{}
	versions, _ := spec["versions"].([]any)
	for _, v := range versions {
		version, _ := v.(map[string]any)
		name, _ := version["name"].(string)
		byName[name] = version
		if sub, _ := version["subresources"].(map[string]any); len(sub) == 0 {
			delete(version, "subresources")
		}
		schema, _ := version["schema"].(map[string]any)
		root, _ := schema["openAPIV3Schema"].(map[string]any)
		properties, _ := root["properties"].(map[string]any)
		for _, name := range []string{"apiVersion", "kind", "metadata"} {
			property, _ := properties[name].(map[string]any)
			delete(property, "description")
			if len(property) == 0 || len(property) == 1 && (property["type"] == "string" || property["type"] == "object") {
				delete(properties, name)
			}
		}
		if len(properties) == 0 {
			delete(root, "properties")
		}
		normalizeSchema(root)
	}
	spec["versions"] = byName
}

// normalizeSchema sorts what has no order, and drops what is empty.
func normalizeSchema(s map[string]any) {
	if required, ok := s["required"].([]any); ok {
		slices.SortFunc(required, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		if len(required) == 0 {
			delete(s, "required")
		}
	}
	if text, ok := s["description"].(string); ok {
		s["description"] = strings.Join(strings.Fields(text), " ")
	}
	for _, key := range []string{"items", "additionalProperties", "not"} {
		if of, ok := s[key].(map[string]any); ok {
			normalizeSchema(of)
		}
	}
	if of, ok := s["properties"].(map[string]any); ok {
		for _, property := range of {
			if p, ok := property.(map[string]any); ok {
				normalizeSchema(p)
			}
		}
		if len(of) == 0 {
			delete(s, "properties")
		}
	}
}

// compare appends the paths where two trees differ.
func compare(path string, imported, made any, found *[]string) {
	a, ok1 := imported.(map[string]any)
	b, ok2 := made.(map[string]any)
	if !ok1 || !ok2 {
		if !reflect.DeepEqual(imported, made) {
			if x, isText := imported.(string); isText {
				if y, isText := made.(string); isText {
					imported, made = fromDifference(x, y)
				}
			}
			*found = append(*found, path+": "+brief(imported)+" is "+brief(made))
		}
		return
	}
	keys := maps.Clone(a)
	maps.Copy(keys, b)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		at := strings.TrimPrefix(path+"."+key, ".")
		x, inA := a[key]
		y, inB := b[key]
		switch {
		case inA && inB:
			compare(at, x, y, found)
		case inA:
			*found = append(*found, at+": "+brief(x)+" is missing")
		default:
			*found = append(*found, at+": "+brief(y)+" is added")
		}
	}
}

// fromDifference returns two texts from shortly before the place where they differ.
func fromDifference(a, b string) (fromA, fromB string) {
	x, y := []rune(a), []rune(b)
	at := 0
	for at < len(x) && at < len(y) && x[at] == y[at] {
		at++
	}
	at -= 20
	if at <= 0 {
		return a, b
	}
	return "..." + string(x[at:]), "..." + string(y[at:])
}

// brief returns a value as JSON, shortened.
func brief(value any) string {
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	if text := []rune(string(data)); len(text) > 80 {
		return string(text[:77]) + "..."
	}
	return string(data)
}
