package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
)

// Foreign is the description of a group version by another server.
type Foreign struct {
	Name string // path of the document below /openapi/v3: apis/GROUP/VERSION
	URL  string // where the v3 document is; "" if there is none
	// V2 is the v2 document of everything that the other server serves; nil if there is none. V2Tag
	// identifies it.
	V2    []byte
	V2Tag string
}

const (
	refDefinitions = "#/definitions/"
	refParameters  = "#/parameters/"
)

// foreignV2 is the contribution of other servers to the OpenAPI v2 document, given the definitions
// that it has already. A definition whose name has another meaning here is renamed. An invalid
// document contributes nothing.
func foreignV2(others []Foreign, definitions map[string]json.RawMessage) *fragment {
	whole := newFragment()
	taken := maps.Clone(definitions)
	for _, other := range others {
		if other.V2 == nil {
			continue
		}
		f, err := other.fragmentV2(taken)
		if err == nil {
			_, err = f.protoV2("")
		}
		if err != nil {
			slog.Warn("skipped the openapi document of an extension server", "groupVersion", other.Name, "error", err)
			continue
		}
		whole = merge([]*fragment{whole, f})
		maps.Copy(taken, f.schemas)
	}
	return whole
}

// protoV2 is the protobuf message of the fragment alone.
func (f *fragment) protoV2(version string) ([]byte, error) {
	return encodeProtoV2(version, map[string]json.RawMessage{"paths": encodeRaw(f.paths), "definitions": encodeRaw(f.schemas)})
}

// fragmentV2 is the contribution of one other server to a document that has some definitions
// already.
func (o *Foreign) fragmentV2(taken map[string]json.RawMessage) (*fragment, error) {
	var document struct{ Paths, Definitions, Parameters map[string]any }
	if err := json.Unmarshal(o.V2, &document); err != nil {
		return nil, err
	}
	prefix := "/" + o.Name
	needs := sets.New[string]()
	for path, item := range document.Paths {
		if path != prefix && !strings.HasPrefix(path, prefix+"/") {
			delete(document.Paths, path)
			continue
		}
		document.Paths[path] = inline(item, document.Parameters, 0)
		references(document.Paths[path], document.Definitions, needs)
	}
	names, err := rename(document.Definitions, needs, taken)
	if err != nil {
		return nil, err
	}
	f := newFragment()
	for path, item := range document.Paths {
		if f.paths[path], err = encode(renamed(item, names)); err != nil {
			return nil, err
		}
	}
	for name := range needs {
		if _, ours := taken[names[name]]; ours {
			continue
		}
		if f.schemas[names[name]], err = encode(renamed(document.Definitions[name], names)); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// inline replaces references to parameters by the parameters. Parameters contain no references to
// others.
func inline(v any, parameters map[string]any, depth int) any {
	switch v := v.(type) {
	case map[string]any:
		if ref, ok := v["$ref"].(string); ok && depth == 0 {
			if name, ok := strings.CutPrefix(ref, refParameters); ok && parameters[name] != nil {
				return inline(parameters[name], parameters, 1)
			}
		}
		for key := range v {
			v[key] = inline(v[key], parameters, depth)
		}
	case []any:
		for i := range v {
			v[i] = inline(v[i], parameters, depth)
		}
	}
	return v
}

// references adds the definitions to which a value refers, directly or indirectly.
func references(v any, definitions map[string]any, found sets.Set[string]) {
	switch v := v.(type) {
	case map[string]any:
		if ref, ok := v["$ref"].(string); ok {
			if name, ok := strings.CutPrefix(ref, refDefinitions); ok && !found.Has(name) && definitions[name] != nil {
				found.Insert(name)
				references(definitions[name], definitions, found)
			}
		}
		for _, item := range v {
			references(item, definitions, found)
		}
	case []any:
		for _, item := range v {
			references(item, definitions, found)
		}
	}
}

// maxPasses limits the number of comparisons of definitions that refer to each other. Definitions
// that are undecided by then are renamed.
const maxPasses = 10

// rename returns the names of definitions in a document that has others already: their own if they
// are unused or have the same meaning. A definition that refers to a renamed one does not have the
// same meaning.
func rename(definitions map[string]any, needs sets.Set[string], taken map[string]json.RawMessage) (map[string]string, error) {
	names := map[string]string{}
	for name := range needs {
		names[name] = name
	}
	for changed, pass := true, 0; changed; pass++ {
		changed = false
		for _, name := range slices.Sorted(maps.Keys(names)) {
			ours, known := taken[names[name]]
			if !known {
				continue
			}
			theirs, err := encode(meaning(renamed(definitions[name], names)))
			if err != nil {
				return nil, err
			}
			var decoded any
			if err := json.Unmarshal(ours, &decoded); err != nil {
				return nil, err
			}
			own, err := encode(meaning(decoded))
			if err != nil {
				return nil, err
			}
			if bytes.Equal(theirs, own) && pass < maxPasses {
				continue
			}
			for i := 2; known; i++ {
				names[name] = fmt.Sprintf("%s_v%d", name, i)
				_, known = taken[names[name]]
			}
			changed = true
		}
	}
	return names, nil
}

// meaning is a definition without the list of its kinds, which differs between servers.
func meaning(v any) any {
	if schema, ok := v.(map[string]any); ok {
		schema = maps.Clone(schema)
		delete(schema, keyKinds)
		return schema
	}
	return v
}

// renamed returns a copy of a value with renamed references to definitions.
func renamed(v any, names map[string]string) any {
	switch v := v.(type) {
	case map[string]any:
		next := make(map[string]any, len(v))
		for key, item := range v {
			if ref, ok := item.(string); ok && key == "$ref" {
				if name, ok := strings.CutPrefix(ref, refDefinitions); ok && names[name] != "" {
					next[key] = refDefinitions + names[name]
					continue
				}
			}
			next[key] = renamed(item, names)
		}
		return next
	case []any:
		next := make([]any, len(v))
		for i := range v {
			next[i] = renamed(v[i], names)
		}
		return next
	}
	return v
}

// withForeign adds the contributions of other servers to a v2 document.
func withForeign(document []byte, others []Foreign) (*fragment, []byte, error) {
	var whole map[string]json.RawMessage
	if err := json.Unmarshal(document, &whole); err != nil {
		return nil, nil, err
	}
	var definitions, paths map[string]json.RawMessage
	if err := json.Unmarshal(whole["definitions"], &definitions); err != nil {
		return nil, nil, err
	}
	if err := json.Unmarshal(whole["paths"], &paths); err != nil {
		return nil, nil, err
	}
	f := foreignV2(others, definitions)
	maps.Copy(paths, f.paths)
	maps.Copy(definitions, f.schemas)
	whole["paths"], whole["definitions"] = encodeRaw(paths), encodeRaw(definitions)
	return f, encodeRaw(whole), nil
}
