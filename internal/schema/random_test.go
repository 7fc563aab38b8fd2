package schema

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// generator generates schemas, and objects that more or less fit them.
type generator struct {
	*rand.Rand
	rules int  // chance of conditions on a schema, in percent
	calm  bool // schemas restrict values by conditions only, and objects fit
}

func newGenerator(seed uint64) generator {
	g := generator{Rand: rand.New(rand.NewPCG(seed, 0))}
	if g.chance(15) {
		g.rules = 30
	}
	return g
}

func (g generator) chance(percent int) bool { return g.IntN(100) < percent }

func pick[T any](g generator, list ...T) T { return list[g.IntN(len(list))] }

var names = []string{"a", "b", "c", "d", "e", "name", "kind", "metadata", "apiVersion", "x-y", "ünï"}

// root returns the schema of a resource.
func (g generator) root() *apiextensionsv1.JSONSchemaProps {
	s := &apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{}}
	for _, k := range []string{"spec", "status", "data", "extra"} {
		if g.chance(60) {
			s.Properties[k] = *g.schema(3)
		}
	}
	if g.chance(20) {
		s.Properties["metadata"] = apiextensionsv1.JSONSchemaProps{
			Type: "object",
			Properties: map[string]apiextensionsv1.JSONSchemaProps{
				"name": {Type: "string", MaxLength: ptr(int64(g.IntN(6))), Pattern: g.pattern()},
			},
		}
	}
	if g.chance(10) {
		s.XPreserveUnknownFields = ptr(true)
	}
	if g.chance(10) {
		g.restrict(s, 2)
	}
	if g.rules == 0 && g.chance(5) {
		s.AdditionalProperties = &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true, Schema: g.schema(2)}
	}
	g.addRules(s)
	return s
}

// schema returns a structural schema.
func (g generator) schema(depth int) *apiextensionsv1.JSONSchemaProps {
	s := &apiextensionsv1.JSONSchemaProps{Nullable: g.chance(15)}
	kinds := 9
	if depth == 0 {
		kinds = 5
	}
	switch g.IntN(kinds) {
	case 0, 1:
		s.Type = "string"
	case 2:
		s.Type = "integer"
	case 3:
		s.Type = "number"
	case 4:
		if g.chance(50) {
			s.XIntOrString = true
		} else {
			s.Type = "boolean"
		}
	case 5, 6:
		g.object(s, depth)
	case 7:
		g.list(s, depth)
	case 8:
		s.XPreserveUnknownFields = ptr(true)
		s.Type = pick(g, "", "object")
		if s.Type == "object" {
			s.XEmbeddedResource = g.chance(50)
			if g.chance(50) {
				g.object(s, depth)
			}
		}
	}
	g.restrict(s, depth)
	if g.chance(20) {
		s.Default = g.json(g.value(s, depth))
	}
	g.addRules(s)
	return s
}

func (g generator) object(s *apiextensionsv1.JSONSchemaProps, depth int) {
	s.Type = "object"
	kind := g.IntN(6)
	// A CustomResourceDefinition cannot have properties of both kinds, and rules about such objects
	// behave differently.
	valid := g.rules > 0
	if valid && s.XEmbeddedResource {
		kind = -1
	}
	switch kind {
	case 0:
		s.AdditionalProperties = &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true, Schema: g.schema(depth - 1)}
		if valid || g.chance(80) {
			return
		}
	case 1:
		s.AdditionalProperties = &apiextensionsv1.JSONSchemaPropsOrBool{Allows: g.chance(60)}
		if valid || g.chance(50) {
			return
		}
	}
	s.Properties = map[string]apiextensionsv1.JSONSchemaProps{}
	for range 1 + g.IntN(5) {
		s.Properties[pick(g, names...)] = *g.schema(depth - 1)
	}
	if g.chance(5) { // more than are searched one by one
		for i := range 12 {
			s.Properties[fmt.Sprintf("p%d", i)] = *g.schema(0)
		}
	}
}

func (g generator) list(s *apiextensionsv1.JSONSchemaProps, depth int) {
	s.Type = "array"
	s.Items = &apiextensionsv1.JSONSchemaPropsOrArray{Schema: g.schema(depth - 1)}
	switch g.IntN(4) {
	case 0:
		s.XListType = ptr("set")
	case 1:
		s.XListType = ptr("map")
		s.XListMapKeys = pick(g, []string{"a"}, []string{"a", "b"}, []string{"x-y"}, []string{"ünï"}, []string{"a", "namespace"},
			[]string{"a", "b", "x-y"}, []string{"a", "b", "c", "namespace"})
		items := &apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{}}
		for _, k := range append([]string{"a", "c"}, s.XListMapKeys...) {
			items.Properties[k] = *g.schema(0)
		}
		if g.calm || g.chance(90) {
			s.Items.Schema = items
		}
	case 2:
		s.XListType = ptr("atomic")
	}
}

// restrict adds rules, some of which do not fit the type.
func (g generator) restrict(s *apiextensionsv1.JSONSchemaProps, depth int) {
	type schema = apiextensionsv1.JSONSchemaProps
	small := func() *int64 { return ptr(int64(g.IntN(4))) }
	float := func() *float64 { return ptr(pick(g, -1, 0, 0.5, 1, 1.5, 2, 3, 10, 3e9, 1e19, 1e300)) }
	for !g.calm && g.chance(45) {
		switch g.IntN(17) {
		case 0:
			s.MinLength = small()
		case 1:
			s.MaxLength = small()
		case 2:
			s.Pattern = g.pattern()
		case 3:
			s.Minimum, s.ExclusiveMinimum = float(), g.chance(30)
		case 4:
			s.Maximum, s.ExclusiveMaximum = float(), g.chance(30)
		case 5:
			s.MultipleOf = float()
		case 6:
			s.MinItems = small()
		case 7:
			s.MaxItems = small()
		case 8:
			s.UniqueItems = true
		case 9:
			s.MinProperties = small()
		case 10:
			s.MaxProperties = small()
		case 11:
			for range 1 + g.IntN(3) {
				s.Required = append(s.Required, pick(g, names...))
			}
		case 12:
			for range 1 + g.IntN(4) {
				s.Enum = append(s.Enum, *g.json(g.value(s, 1)))
			}
		case 13:
			s.Format = pick(g, "int32", "int64", "float", "double", "date", "date-time", "duration", "ipv4", "cidr", "uuid",
				"byte", "password", "nonsense", "k8s-short-name", "uri", "email", "hostname", "bsonobjectid")
		default:
			if depth <= 0 {
				continue
			}
			nested := func() []schema {
				var list []schema
				for range 1 + g.IntN(3) {
					list = append(list, *g.alternative(s, depth-1))
				}
				return list
			}
			switch g.IntN(4) {
			case 0:
				s.AllOf = nested()
			case 1:
				s.AnyOf = nested()
			case 2:
				s.OneOf = nested()
			case 3:
				s.Not = g.alternative(s, depth-1)
			}
		}
	}
}

// alternative returns a schema for one side of a combination: only with rules, or with a type if
// the parent has none.
func (g generator) alternative(parent *apiextensionsv1.JSONSchemaProps, depth int) *apiextensionsv1.JSONSchemaProps {
	s := &apiextensionsv1.JSONSchemaProps{}
	if g.chance(30) {
		s.Type = pick(g, "string", "integer", "number", "object", "array", "boolean")
	}
	s.Nullable = g.chance(10)
	for _, k := range slices.Sorted(maps.Keys(parent.Properties)) {
		if g.chance(30) && depth > 0 {
			if s.Properties == nil {
				s.Properties = map[string]apiextensionsv1.JSONSchemaProps{}
			}
			s.Properties[k] = *g.alternative(&apiextensionsv1.JSONSchemaProps{}, depth-1)
		}
		if g.chance(30) {
			s.Required = append(s.Required, k)
		}
	}
	if parent.Items != nil && g.chance(50) {
		s.Items = &apiextensionsv1.JSONSchemaPropsOrArray{Schema: g.alternative(parent.Items.Schema, depth-1)}
	}
	g.restrict(s, depth)
	return s
}

func (g generator) pattern() string { return pick(g, "^a", "b$", "^[a-z]+$", "é", "", "%d", "(") }

// object makes a resource that may fit the schema.
func (g generator) resource(s *apiextensionsv1.JSONSchemaProps) map[string]any {
	obj, ok := g.value(s, 4).(map[string]any)
	if !ok {
		obj = map[string]any{}
	}
	obj["apiVersion"], obj["kind"] = "example.com/v1", "Thing"
	obj["metadata"] = map[string]any{"name": g.word(), "labels": map[string]any{"a": "b"}}
	return obj
}

// value returns a value that may fit the schema.
func (g generator) value(s *apiextensionsv1.JSONSchemaProps, depth int) any {
	if !g.calm && g.chance(4) {
		return g.anything(2)
	}
	if g.chance(4) {
		return nil
	}
	if len(s.Enum) > 0 && g.chance(70) {
		v, err := parseJSON(&s.Enum[g.IntN(len(s.Enum))])
		if err == nil {
			return clone(v)
		}
	}
	switch {
	case s.XIntOrString:
		if g.chance(50) {
			return g.integer()
		}
		return g.word()
	case s.Type == "string":
		return g.text(s.Format)
	case s.Type == "integer":
		if !g.calm && g.chance(15) {
			return float64(g.IntN(5))
		}
		return g.integer()
	case s.Type == "number":
		if g.chance(40) {
			return g.integer()
		}
		return g.float()
	case s.Type == "boolean":
		return g.chance(50)
	case s.Type == "array":
		list := []any{}
		for range g.IntN(4) {
			if s.Items == nil {
				list = append(list, g.anything(depth-1))
			} else {
				list = append(list, g.value(s.Items.Schema, depth-1))
			}
		}
		return list
	case s.Type == "object" || len(s.Properties) > 0:
		return g.fit(s, depth)
	}
	return g.anything(2)
}

func (g generator) fit(s *apiextensionsv1.JSONSchemaProps, depth int) any {
	obj := map[string]any{}
	if s.XEmbeddedResource && g.chance(90) {
		obj["apiVersion"], obj["kind"] = pick(g, "v1", "a/v1", "", "a/b/c"), pick(g, "Thing", "", "no kind")
		obj["metadata"] = g.metadata()
	}
	for _, k := range slices.Sorted(maps.Keys(s.Properties)) {
		p := s.Properties[k]
		if g.chance(75) {
			obj[k] = g.value(&p, depth-1)
		}
	}
	if a := s.AdditionalProperties; a != nil && a.Schema != nil {
		for range g.IntN(3) {
			obj[pick(g, names...)] = g.value(a.Schema, depth-1)
		}
	}
	if g.chance(20) {
		obj[pick(g, names...)] = g.anything(2)
	}
	return obj
}

func (g generator) metadata() any {
	m := map[string]any{"name": g.word()}
	for g.chance(50) {
		switch g.IntN(7) {
		case 0:
			m["labels"] = map[string]any{g.word(): g.word()}
		case 1:
			m["nonsense"] = g.anything(1)
		case 2:
			m["namespace"] = g.word()
		case 3:
			m["labels"] = g.anything(1)
		case 4:
			m["creationTimestamp"] = pick[any](g, nil, "2020-01-01T00:00:00Z", "yesterday")
		case 5:
			m["ownerReferences"] = []any{map[string]any{"name": "x", "other": int64(1)}}
		case 6:
			m["generation"] = g.integer()
		}
	}
	return m
}

func (g generator) anything(depth int) any {
	kinds := 8
	if depth <= 0 {
		kinds = 5
	}
	switch g.IntN(kinds) {
	case 0:
		return nil
	case 1:
		return g.chance(50)
	case 2:
		return g.integer()
	case 3:
		return g.float()
	case 4:
		return g.word()
	case 5:
		list := []any{}
		for range g.IntN(3) {
			list = append(list, g.anything(depth-1))
		}
		return list
	default:
		obj := map[string]any{}
		for range g.IntN(4) {
			obj[pick(g, names...)] = g.anything(depth - 1)
		}
		return obj
	}
}

func (g generator) word() string {
	return pick(g, "", "a", "b", "ab", "abc", "b a", "é", "ééé", "A", "1")
}

func (g generator) text(format string) string {
	if format == "" || g.chance(30) {
		return g.word()
	}
	return pick(g, "2020-01-31", "2020-01-31T10:00:00Z", "3h", "10.0.0.1", "10.0.0.0/8", "aGVsbG8=", "a.example", "a@b.example",
		"http://a.example/b", "6ba7b810-9dad-11d1-80b4-00c04fd430c8", "507f1f77bcf86cd799439011")
}

func (g generator) integer() int64 {
	return pick(g, int64(g.IntN(5)), -1, 65, 10, 1<<31, 1<<62, -1<<63)
}

func (g generator) float() float64 {
	return pick(g, float64(g.IntN(4)), 0.5, 1.5, -1, 1e20, 1e300, 3.4e38, 1.0000000001, 9.3e18)
}

func (g generator) json(v any) *apiextensionsv1.JSON {
	return &apiextensionsv1.JSON{Raw: []byte(toJSON(v))}
}

func ptr[T any](v T) *T { return &v }

// damage changes a value below v, which has children.
func (g generator) damage(v any) {
	switch v := v.(type) {
	case map[string]any:
		if len(v) == 0 || g.chance(10) {
			v[pick(g, names...)] = g.anything(2)
			return
		}
		k := pick(g, slices.Sorted(maps.Keys(v))...)
		switch {
		case !isScalar(v[k]) && g.chance(75):
			g.damage(v[k])
		case g.chance(30):
			delete(v, k)
		case g.chance(20):
			v[k] = nil
		default:
			v[k] = g.anything(1)
		}
	case []any:
		if len(v) == 0 {
			return
		}
		i := g.IntN(len(v))
		switch {
		case !isScalar(v[i]) && g.chance(75):
			g.damage(v[i])
		case g.chance(30):
			v[i] = clone(v[g.IntN(len(v))])
		default:
			v[i] = g.anything(1)
		}
	}
}
