package operators

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"regexp/syntax"
	"slices"
	"strings"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	kjson "sigs.k8s.io/json"
)

// A generator generates objects from a schema, and damages them.
type generator struct {
	*rand.Rand
	room int // number of values that may be added
}

func newGenerator(seed, stream uint64) *generator {
	return &generator{Rand: rand.New(rand.NewPCG(seed, stream))}
}

func (g *generator) chance(percent int) bool { return g.IntN(100) < percent }

func pick[T any](g *generator, list ...T) T { return list[g.IntN(len(list))] }

// resource returns an object that nearly always matches the version's schema, except for
// x-kubernetes-validations.
func (g *generator) resource(v *version) tree {
	g.room = 20 + g.IntN(300)
	obj := tree{}
	if s := v.schema(); s != nil {
		obj, _ = g.object(s).(tree)
	}
	obj["apiVersion"], obj["kind"] = v.gvk().GroupVersion().String(), v.gvk().Kind
	obj["metadata"] = tree{"name": "generated"}
	return obj
}

func (g *generator) value(s *apiextensionsv1.JSONSchemaProps) any {
	g.room--
	if len(s.Enum) > 0 {
		return decode(pick(g, s.Enum...).Raw)
	}
	switch {
	case s.XIntOrString:
		if s.Pattern == "" && g.chance(50) {
			return int64(g.IntN(100))
		}
		return g.text(s)
	case s.Type == "string":
		return g.text(s)
	case s.Type == "integer":
		return int64(g.number(s))
	case s.Type == "number":
		if n := g.number(s); n != math.Trunc(n) || g.chance(50) {
			return n
		} else {
			return int64(n)
		}
	case s.Type == "boolean":
		return g.chance(50)
	case s.Type == "array":
		return g.list(s)
	case s.Type == "object" || s.Properties != nil:
		return g.object(s)
	}
	return pick[any](g, "free", int64(1), tree{"free": true}, []any{"free"})
}

func (g *generator) object(s *apiextensionsv1.JSONSchemaProps) any {
	obj := tree{}
	if s.XEmbeddedResource {
		obj["apiVersion"], obj["kind"], obj["metadata"] = "example.com/v1", "Thing", tree{"name": "embedded"}
	}
	required := slices.Clone(s.Required)
	banned := map[string]bool{}
	for _, alternatives := range [][]apiextensionsv1.JSONSchemaProps{s.OneOf, s.AnyOf} {
		if len(alternatives) == 0 {
			continue
		}
		chosen := pick(g, alternatives...)
		for _, other := range alternatives {
			for _, name := range other.Required {
				banned[name] = !slices.Contains(chosen.Required, name)
			}
		}
		required = append(required, chosen.Required...)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		p := s.Properties[name]
		wanted := slices.Contains(required, name)
		if obj[name] == nil && (wanted || !banned[name] && g.room > 0 && g.chance(40)) {
			obj[name] = g.value(&p)
		}
	}
	if a := s.AdditionalProperties; a != nil && a.Schema != nil {
		n := g.IntN(3)
		if s.MinProperties != nil {
			n = max(n, int(*s.MinProperties))
		}
		for i := range n {
			obj[fmt.Sprintf("key%d", i)] = g.value(a.Schema)
		}
	}
	if s.MaxProperties != nil {
		for _, name := range slices.Sorted(maps.Keys(obj)) {
			if len(obj) > int(*s.MaxProperties) && !slices.Contains(required, name) {
				delete(obj, name)
			}
		}
	}
	return obj
}

func (g *generator) list(s *apiextensionsv1.JSONSchemaProps) any {
	n := 0
	if g.room > 0 {
		n = g.IntN(3)
	}
	if s.MinItems != nil {
		n = max(n, int(*s.MinItems))
	}
	if s.MaxItems != nil {
		n = min(n, int(*s.MaxItems))
	}
	list := []any{}
	seen := map[string]bool{} // keys of a map, items of a set
	for range n {
		if s.Items == nil || s.Items.Schema == nil {
			break
		}
		item := g.value(s.Items.Schema)
		key := item
		if obj, ok := item.(tree); ok && len(s.XListMapKeys) > 0 {
			keys := []any{}
			for _, name := range s.XListMapKeys {
				keys = append(keys, obj[name])
			}
			key = keys
		}
		if s.XListType != nil && *s.XListType != "atomic" && seen[toJSON(key)] {
			continue
		}
		seen[toJSON(key)] = true
		list = append(list, item)
	}
	return list
}

func (g *generator) number(s *apiextensionsv1.JSONSchemaProps) float64 {
	low, high := float64(0), float64(100)
	if s.Maximum != nil {
		high = *s.Maximum
		low = min(low, high-1)
	}
	if s.Minimum != nil {
		low = *s.Minimum
		if s.Maximum == nil {
			high = low + 100
		}
	}
	n := math.Ceil(low + 1 + g.Float64()*max(0, high-low-2))
	if low >= high-1 {
		n = math.Ceil(low)
	}
	if s.MultipleOf != nil {
		n = math.Ceil(n / *s.MultipleOf) * *s.MultipleOf
	}
	return n
}

// samples are strings by format.
var samples = map[string][]string{
	"date-time": {"2020-01-31T10:00:00Z", "2020-01-31T10:00:00.5+02:00"},
	"date":      {"2020-01-31"},
	"duration":  {"3h", "1m30s"},
	"ipv4":      {"10.0.0.1"},
	"ipv6":      {"fd00::1"},
	"ip":        {"10.0.0.1"},
	"cidr":      {"10.0.0.0/8", "fd00::/64"},
	"byte":      {"aGVsbG8="},
	"hostname":  {"a.example"},
	"email":     {"a@b.example"},
	"uri":       {"http://a.example/b"},
	"uuid":      {"6ba7b810-9dad-11d1-80b4-00c04fd430c8"},
}

func (g *generator) text(s *apiextensionsv1.JSONSchemaProps) string {
	if list := samples[s.Format]; list != nil {
		return pick(g, list...)
	}
	text := pick(g, "a", "some-name", "a.example.com", "10", "5m", "Text with words", "é")
	if s.Pattern != "" {
		text = g.match(s.Pattern)
	}
	if n := s.MinLength; n != nil {
		for len(text) < int(*n) {
			text += "a"
		}
	}
	if n := s.MaxLength; n != nil && len(text) > int(*n) {
		text = strings.ToValidUTF8(text[:*n], "")
	}
	return text
}

// match returns a string that matches a pattern.
func (g *generator) match(pattern string) string {
	re, ok := patterns.Load(pattern)
	if !ok {
		parsed, err := syntax.Parse(pattern, syntax.Perl)
		if err != nil {
			return ""
		}
		re, _ = patterns.LoadOrStore(pattern, parsed)
	}
	var b strings.Builder
	g.spell(&b, re.(*syntax.Regexp))
	return b.String()
}

// patterns caches parsed patterns.
var patterns sync.Map

func (g *generator) spell(b *strings.Builder, re *syntax.Regexp) {
	repeat := func(low, high int) {
		for range low + g.IntN(high-low+1) {
			g.spell(b, re.Sub[0])
		}
	}
	switch re.Op {
	case syntax.OpLiteral:
		b.WriteString(string(re.Rune))
	case syntax.OpCharClass:
		i := 2 * g.IntN(len(re.Rune)/2)
		low, high := max(re.Rune[i], min('!', re.Rune[i+1])), re.Rune[i+1] // avoids control characters
		b.WriteRune(low + rune(g.IntN(int(min(high-low, 25))+1)))
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		b.WriteByte('x')
	case syntax.OpCapture, syntax.OpConcat:
		for _, sub := range re.Sub {
			g.spell(b, sub)
		}
	case syntax.OpAlternate:
		g.spell(b, pick(g, re.Sub...))
	case syntax.OpStar:
		repeat(0, 3)
	case syntax.OpPlus:
		repeat(1, 3)
	case syntax.OpQuest:
		repeat(0, 1)
	case syntax.OpRepeat:
		high := re.Min + 2
		if re.Max >= 0 {
			high = min(high, re.Max)
		}
		repeat(re.Min, high)
	}
}

// damage changes a value below v: to another one of the same or of another type, null, too long,
// too large, duplicated, or absent; or it adds an unknown value.
func (g *generator) damage(v any) {
	switch v := v.(type) {
	case tree:
		if len(v) == 0 || g.chance(8) {
			v[pick(g, "unknown", "Spec", "name", "é")] = g.anything()
			return
		}
		k := pick(g, slices.Sorted(maps.Keys(v))...)
		switch {
		case hasParts(v[k]) && g.chance(85):
			g.damage(v[k])
		case g.chance(25):
			delete(v, k)
		default:
			v[k] = g.instead(v[k])
		}
	case []any:
		if len(v) == 0 {
			return
		}
		i := g.IntN(len(v))
		switch {
		case hasParts(v[i]) && g.chance(85):
			g.damage(v[i])
		case g.chance(30):
			v[i] = clone(v[g.IntN(len(v))])
		default:
			v[i] = g.instead(v[i])
		}
	}
}

func hasParts(v any) bool {
	switch v := v.(type) {
	case tree:
		return len(v) > 0
	case []any:
		return len(v) > 0
	}
	return false
}

func (g *generator) instead(v any) any {
	if g.chance(40) {
		return g.anything()
	}
	switch v := v.(type) {
	case string:
		return pick(g, "", v+v, strings.ToUpper(v), v+" ", strings.Repeat("x", 1<<g.IntN(10)), "é", "0", "\n")
	case int64:
		return pick[any](g, -v, v+1, v*1000, int64(math.MaxInt32)+1, int64(math.MaxInt64), float64(v)+0.5, 1e30, "1")
	case float64:
		return pick[any](g, -v, v*1000, 1e300, int64(1))
	case bool:
		return !v
	case []any:
		list := []any{}
		for range g.IntN(40) {
			if len(v) > 0 {
				list = append(list, clone(v[g.IntN(len(v))]))
			}
		}
		return list
	case tree:
		return pick[any](g, tree{}, []any{v}, tree{"a": v})
	}
	return g.anything()
}

func (g *generator) anything() any {
	return pick[any](g, nil, true, int64(0), int64(-1), 0.5, "", "text", []any{}, []any{nil}, []any{"a", "a"}, tree{}, tree{"a": nil},
		tree{"name": "x"}, []any{tree{"name": "x"}, tree{"name": "x"}})
}

func decode(raw []byte) (v any) {
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &v); err != nil {
		return nil
	}
	return v
}
