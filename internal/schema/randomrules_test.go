package schema

import (
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiservercel "k8s.io/apiserver/pkg/cel"
)

// addRules adds rules to a schema, and to the alternatives of its allOf.
func (g generator) addRules(s *apiextensionsv1.JSONSchemaProps) {
	for g.chance(g.rules) {
		s.XValidations = append(s.XValidations, g.rule(s))
	}
	for i := range s.AllOf {
		g.addAlternativeRules(&s.AllOf[i], s)
	}
}

// addAlternativeRules adds rules for values of schema s to an alternative.
func (g generator) addAlternativeRules(a, s *apiextensionsv1.JSONSchemaProps) {
	if g.chance(g.rules) {
		a.XValidations = append(a.XValidations, g.rule(s))
	}
	for _, k := range slices.Sorted(maps.Keys(a.Properties)) {
		below := a.Properties[k]
		if real, found := s.Properties[k]; found {
			g.addAlternativeRules(&below, &real)
			a.Properties[k] = below
		}
	}
	if a.Items != nil && s.Items != nil {
		g.addAlternativeRules(a.Items.Schema, s.Items.Schema)
	}
	for i := range a.AllOf {
		g.addAlternativeRules(&a.AllOf[i], s)
	}
}

func (g generator) rule(s *apiextensionsv1.JSONSchemaProps) apiextensionsv1.ValidationRule {
	r := apiextensionsv1.ValidationRule{Rule: g.expression(s)}
	if g.chance(15) {
		r.Rule = "!(" + r.Rule + ")"
	}
	if g.chance(20) {
		r.OptionalOldSelf = ptr(true)
		r.Rule = pick(g, "oldSelf.hasValue()", "oldSelf.orValue(self) == self", "!oldSelf.hasValue() || oldSelf.value() == self", r.Rule)
	}
	if g.chance(30) {
		r.Message = pick(g, "must be better", " spaces ", "x")
	}
	if g.chance(30) {
		r.MessageExpression = pick(g, "'not ' + string(self)", "'is ' + string(type(self) == string)", "''", "'a\\nb'", "'x'.substring(3)",
			"1", "nonsense", "string(oldSelf == self)", "'no'",
			"'was ' + string(oldSelf.hasValue())", "string(oldSelf.orValue(self) == self)", "oldSelf.hasValue() ? 'was' : 'is new'", "'then ' + string(oldSelf)")
	}
	if g.chance(30) {
		r.Reason = ptr(pick(g, apiextensionsv1.FieldValueRequired, apiextensionsv1.FieldValueForbidden, apiextensionsv1.FieldValueInvalid,
			apiextensionsv1.FieldValueDuplicate))
	}
	if a := s.AdditionalProperties; g.chance(30) && (a == nil || a.Schema != nil) { // the judge panics for paths below these
		r.FieldPath = pick(g, ".a", ".b.c", "['x-y']", ".d['e']", ".nothing", ".spec.a", "a", "['ünï']", ".a.", "['a'", ".metadata.name")
	}
	return r
}

// expression returns a rule that usually compiles for values of a schema.
func (g generator) expression(s *apiextensionsv1.JSONSchemaProps) string {
	common := []string{"true", "false", "self == oldSelf", "self != oldSelf", "self == self"}
	// A CustomResourceDefinition only has lists with keys of objects.
	odd := len(s.XListMapKeys) > 0 && s.Items.Schema.Type != "object"
	if odd || g.chance(25) {
		return pick(g, "true", "false", "", "oops(", "self.nothing == 1")
	}
	if g.chance(25) {
		return pick(g, common...)
	}
	var list []string
	switch {
	case s.XIntOrString:
		list = []string{"self == 1", "type(self) == int", "self < 3", "type(self) == string ? self == 'a' : self > 0"}
	case s.Type == "string" && s.Format == "date", s.Type == "string" && s.Format == "date-time":
		list = []string{"self.getFullYear() > 2000", "self > timestamp('2020-01-01T00:00:00Z')"}
	case s.Type == "string" && s.Format == "duration":
		list = []string{"self < duration('2h')", "self.getHours() == 3"}
	case s.Type == "string" && s.Format == "byte":
		list = []string{"size(self) > 3", "self == b'hello'"}
	case s.Type == "string":
		list = []string{"self.size() < 2", "self.startsWith('a')", "self == 'a'", "self.matches('^[a-z]+$')", "self < 'b'", "self.find('[a-z]') == 'a'",
			"isURL(self)", "self.lowerAscii() == self", "self in ['a', 'b']", "quantity(self).isGreaterThan(quantity('1'))", "isIP(self)", "self.charAt(1) == 'b'",
			"!format.dns1123Label().validate(self).hasValue()"}
	case s.Type == "integer":
		list = []string{"self > 1", "self >= oldSelf", "10 / self > 1", "self % 2 == 0", "self + 1 > self", "self < 1.5"}
	case s.Type == "number":
		list = []string{"self > 1.0", "self >= oldSelf", "int(self) == 1", "self < 2"}
	case s.Type == "boolean":
		list = []string{"self", "!self || oldSelf"}
	case s.Type == "array":
		list = []string{"self.size() < 2", "self.all(x, x == x)", "oldSelf.all(x, x in self)", "self + self == self", "self == self + oldSelf", "self[0] == self[1]",
			"self.exists(x, x == self[0])", "self.map(x, x) == self", "self.filter(x, x == self[0]).size() == 1", "self.all(i, v, i == 0 || v != self[0])",
			"sets.contains(self, oldSelf)", "self.isSorted()", "oldSelf + self == self", "self.indexOf(self[0]) == 0"}
		if g.chance(50) && s.Items != nil {
			return "self.all(self, " + g.expression(s.Items.Schema) + ")"
		}
	case s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil:
		list = []string{"self.size() < 2", "self.all(k, k.size() < 2)", "'a' in self", "self['a'] == self['b']", "self.map(k, self[k]).size() == 1",
			"self.all(k, v, k != 'a' || v == self[k])", "self.exists(k, self[k] == oldSelf[k])", "has(self.a) && self.a == oldSelf.a"}
	case len(s.Properties) > 0:
		k := pick(g, slices.Sorted(maps.Keys(s.Properties))...)
		name, ok := apiservercel.Escape(k)
		if !ok {
			return "has(self.a)"
		}
		p := s.Properties[k]
		list = []string{"has(self.N)", "self.N == oldSelf.N", "!has(self.N) || self.N == self.N", "self.?N.hasValue()", "self.N == null",
			"has(self.N) && " + strings.ReplaceAll(g.expression(&p), "self", "self.N"), "!has(self.metadata) || self.metadata.name == 'a'", "self.kind == 'Thing'"}
		return strings.ReplaceAll(pick(g, list...), "N", name)
	default:
		list = []string{"self == self", "self.kind == 'Thing'", "has(self.a)", "size(self) == 0"}
	}
	return pick(g, list...)
}
