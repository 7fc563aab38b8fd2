package fields

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"

	"github.com/kapok-dev/kapok/internal/kinds/openapi"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// gen generates random schemas, and values with few names and few scalars, so that values coincide.
type gen struct {
	*rand.Rand
	models  map[string]*spec.Schema // referenced by schemas
	repeats bool                    // lists may hold an item twice
}

// resolve resolves a reference.
func (g gen) resolve(s *spec.Schema) *spec.Schema {
	ref := s.Ref.String()
	if ref == "" && len(s.AllOf) == 1 {
		ref = s.AllOf[0].Ref.String()
	}
	if to := g.models[strings.TrimPrefix(ref, openapi.RefPrefix)]; to != nil {
		return to
	}
	return s
}

func (g gen) chance(percent int) bool { return g.IntN(100) < percent }

func (g gen) pick(names ...string) string { return names[g.IntN(len(names))] }

func typeOf(name string) *spec.Schema {
	return &spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{name}}}
}

// root returns a schema with a spec and a status.
func (g gen) root() *spec.Schema {
	s := typeOf("object")
	s.SetProperty("spec", *g.object(4))
	s.SetProperty("status", *g.object(2))
	return s
}

func (g gen) schema(depth int) *spec.Schema {
	n := 10
	if depth <= 0 {
		n = 5
	}
	switch g.IntN(n) {
	case 0:
		return typeOf("integer")
	case 1:
		return typeOf("boolean")
	case 2:
		s := &spec.Schema{}
		s.AddExtension("x-kubernetes-int-or-string", true)
		return s
	case 3, 4:
		return typeOf("string")
	case 5, 6:
		return g.object(depth)
	case 7:
		s := typeOf("object")
		s.AdditionalProperties = &spec.SchemaOrBool{Allows: true, Schema: g.schema(depth - 1)}
		g.maybeAtomic(s)
		return s
	case 8:
		s := typeOf("object")
		s.AddExtension("x-kubernetes-preserve-unknown-fields", true)
		if g.chance(30) {
			s.SetProperty("a", *g.schema(depth - 1))
		}
		return s
	}
	return g.array(depth)
}

func (g gen) maybeAtomic(s *spec.Schema) {
	if g.chance(15) {
		s.AddExtension("x-kubernetes-map-type", g.pick("atomic", "granular"))
	}
}

func (g gen) object(depth int) *spec.Schema {
	s := typeOf("object")
	for range 1 + g.IntN(4) {
		s.SetProperty(g.pick("a", "b", "c", "d", "e", "f"), *g.schema(depth - 1))
	}
	g.maybeAtomic(s)
	return s
}

func (g gen) array(depth int) *spec.Schema {
	s := typeOf("array")
	switch g.IntN(5) {
	case 0:
		s.Items = &spec.SchemaOrArray{Schema: g.schema(depth - 1)}
		if g.chance(50) {
			s.AddExtension("x-kubernetes-list-type", "atomic")
		}
	case 1:
		s.Items = &spec.SchemaOrArray{Schema: typeOf(g.pick("string", "integer", "number"))}
		s.AddExtension("x-kubernetes-list-type", "set")
	default:
		item := g.object(depth - 1)
		delete(item.Extensions, "x-kubernetes-map-type")
		keys := []any{"k"}
		item.SetProperty("k", *typeOf(g.pick("string", "integer")))
		if g.chance(40) {
			other := typeOf("string")
			if g.chance(60) {
				other.Default = "x"
			}
			item.SetProperty("j", *other)
			keys = append(keys, "j")
		}
		s.Items = &spec.SchemaOrArray{Schema: item}
		s.AddExtension("x-kubernetes-list-type", "map")
		s.AddExtension("x-kubernetes-list-map-keys", keys)
	}
	return s
}

// value returns a value for a schema. wild is the chance, in percent, that a part of it does not
// fit.
func (g gen) value(s *spec.Schema, wild int) any {
	s = g.resolve(s)
	if g.chance(wild) {
		return []any{nil, int64(1), "x", map[string]any{}, []any{}, 1.5}[g.IntN(6)]
	}
	name := ""
	if len(s.Type) > 0 {
		name = s.Type[0]
	}
	switch name {
	case "integer":
		return int64(g.IntN(3))
	case "number":
		return []any{int64(1), 1.0, 1.5, int64(2)}[g.IntN(4)]
	case "boolean":
		return g.chance(50)
	case "string":
		return g.pick("x", "y", "z", "<é\n")
	case "object":
		return g.fields(s, wild)
	case "array":
		list := []any{}
		for range g.IntN(4) {
			list = append(list, g.value(s.Items.Schema, wild))
		}
		kind, keys := s.Extensions["x-kubernetes-list-type"], listKeys(s)
		if strategy, _ := s.Extensions["x-kubernetes-patch-strategy"].(string); kind == nil && strings.HasPrefix(strategy, "merge") {
			kind = "merge"
		}
		if kind != nil && kind != "atomic" && !g.chance(2*wild) && (!g.repeats || g.chance(50)) {
			list = distinctItems(list, keys)
		}
		return list
	}
	return []any{int64(1), "x"}[g.IntN(2)]
}

// listKeys returns the keys of the items of a list.
func listKeys(s *spec.Schema) (keys []string) {
	list, _ := s.Extensions["x-kubernetes-list-map-keys"].([]any)
	for _, k := range list {
		keys = append(keys, k.(string))
	}
	if k, ok := s.Extensions["x-kubernetes-patch-merge-key"].(string); ok && len(keys) == 0 {
		keys = append(keys, k)
	}
	return keys
}

// distinctItems drops items with repeated keys, and those without keys.
func distinctItems(list []any, keys []string) []any {
	seen, out := map[string]bool{}, []any{}
	for _, item := range list {
		id := fmt.Sprint(item)
		if m, ok := item.(map[string]any); ok && len(keys) > 0 {
			id = ""
			for _, k := range keys {
				if v, ok := m[k]; ok {
					id += fmt.Sprint(v)
				}
			}
			if m[keys[0]] == nil {
				continue
			}
		}
		if !seen[id] {
			seen[id] = true
			out = append(out, item)
		}
	}
	return out
}

func (g gen) fields(s *spec.Schema, wild int) map[string]any {
	out := map[string]any{}
	for _, name := range sortedKeys(s.Properties) {
		p := s.Properties[name]
		often := 50
		if len(s.Properties) > 8 {
			often = 300 / len(s.Properties)
		}
		switch name {
		case "k", "name", "containerPort", "port", "key", "type", "uid":
			often = 97
		}
		if g.chance(often) {
			out[name] = g.value(&p, wild)
		}
	}
	if a := s.AdditionalProperties; a != nil && a.Schema != nil {
		for range g.IntN(3) {
			out[g.pick("a", "b", "g")] = g.value(a.Schema, wild)
		}
	}
	if s.Extensions["x-kubernetes-preserve-unknown-fields"] == true {
		for range g.IntN(3) {
			out[g.pick("b", "g", "h")] = g.free(3)
		}
	}
	if g.chance(wild) {
		out["unknown"] = "x"
	}
	return out
}

func (g gen) free(depth int) any {
	n := 6
	if depth == 0 {
		n = 4
	}
	switch g.IntN(n) {
	case 0:
		return nil
	case 1:
		return int64(g.IntN(2))
	case 2, 3:
		return g.pick("x", "y")
	case 4:
		return []any{g.free(depth - 1)}
	}
	out := map[string]any{}
	for range g.IntN(3) {
		out[g.pick("a", "b")] = g.free(depth - 1)
	}
	return out
}

// edit changes a few parts of a value, and returns the result.
func (g gen) edit(s *spec.Schema, v any, wild int) any {
	s = g.resolve(s)
	m, ok := v.(map[string]any)
	if !ok || len(s.Properties) == 0 || g.chance(10) {
		if list, ok := v.([]any); ok && len(list) > 0 && s.Items != nil && g.chance(70) {
			i := g.IntN(len(list))
			switch g.IntN(4) {
			case 0:
				return append(list[:i:i], list[i+1:]...)
			case 1:
				g.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
			case 2:
				before, _ := list[i].(map[string]any)
				keyed := map[string]any{}
				for _, k := range listKeys(s) {
					if v, ok := before[k]; ok {
						keyed[k] = v
					}
				}
				list[i] = g.edit(s.Items.Schema, list[i], wild)
				if item, ok := list[i].(map[string]any); ok {
					maps.Copy(item, keyed)
				}
			}
			return list
		}
		return g.value(s, wild)
	}
	for range 1 + g.IntN(2) {
		names := sortedKeys(s.Properties)
		name := names[g.IntN(len(names))]
		p := s.Properties[name]
		switch has, ok := m[name]; {
		case ok && g.chance(25):
			delete(m, name)
		case ok:
			m[name] = g.edit(&p, has, wild)
		default:
			m[name] = g.value(&p, wild)
		}
	}
	return m
}

// thing returns an object to apply or to create.
func (g gen) thing(w *world, version string, root *spec.Schema, wild int) Tree {
	obj := Tree{"apiVersion": w.gvk(version).GroupVersion().String(), "kind": w.kind}
	meta := Tree{"name": "thing"}
	if g.chance(40) {
		labels := Tree{}
		for range g.IntN(3) {
			labels[g.pick("a", "b", "c")] = g.pick("x", "y")
		}
		meta["labels"] = labels
	}
	if g.chance(20) {
		meta["finalizers"] = []any{g.pick("p", "q")}
	}
	obj["metadata"] = meta
	for _, part := range parts(root) {
		p := root.Properties[part]
		if g.chance(80) {
			obj[part] = g.value(&p, wild)
		}
	}
	return obj
}

// exceptMeta returns a copy of an object without some of its metadata.
func exceptMeta(obj Tree, names ...string) Tree {
	out := runtime.DeepCopyJSON(obj)
	if meta, ok := out["metadata"].(map[string]any); ok {
		for _, name := range names {
			delete(meta, name)
		}
	}
	return out
}

// tamper changes managedFields as clients can.
func (g gen) tamper(obj Tree) {
	meta, _ := obj["metadata"].(map[string]any)
	list, _ := meta["managedFields"].([]any)
	switch g.IntN(16) {
	case 0:
		delete(meta, "managedFields")
	case 1:
		if g.chance(30) {
			meta["managedFields"] = []any{}
		}
	case 2:
		if g.chance(30) {
			meta["managedFields"] = []any{map[string]any{}}
		}
	case 3:
		if len(list) > 0 {
			e := list[g.IntN(len(list))].(map[string]any)
			e[g.pick("operation", "apiVersion", "fieldsType", "manager", "junk", "time", "fieldsV1", "subresource")] = g.pick("", "Apply", "example.com/v9", "other.org/v1", "2020-01-01T00:00:00+01:00", "FieldsV2")
		}
	case 4:
		if len(list) > 0 {
			e := list[g.IntN(len(list))].(map[string]any)
			e["fieldsV1"] = g.set(4)
		}
	case 5:
		if len(list) > 0 {
			meta["managedFields"] = append(list, runtime.DeepCopyJSONValue(list[0]))
		}
	}
}

// set returns a FieldsV1 with any spelling.
func (g gen) set(depth int) map[string]any {
	out := map[string]any{}
	for range g.IntN(4) {
		key := g.pick("f:spec", "f:a", "f:b", "f:c", "f:k", "f:status", ".", `k:{"k":"x"}`, `k:{ "k": 1.0 }`, `k:{"k":"x","j":"x"}`, `k:{"j":"x","k":1}`,
			`v:"x"`, "v:1", "v:1.0", "v:1.5", "i:0", "i:01", "x:y", "v:", "k:{}", "f", "k:[", "f:metadata", "f:labels")
		switch {
		case key == "v:" || key == "f" || key == "k:[":
			if !g.chance(10) {
				continue
			}
		case g.chance(3):
			out[key] = nil
			continue
		}
		if depth > 0 {
			out[key] = g.set(depth - 1)
		} else {
			out[key] = map[string]any{}
		}
	}
	return out
}
