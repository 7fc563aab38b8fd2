package validation

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/test/seeds"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	kubernetes "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

// TestAsKubernetes compares the errors of random definitions with those of Kubernetes.
func TestAsKubernetes(t *testing.T) {
	g := &generator{Rand: rand.New(rand.NewPCG(seeds.Of(t), 0))}
	rounds := 400
	if testing.Short() {
		rounds = 100
	}
	valid, fields := 0, map[string]int{}
	for range rounds {
		g.faults = g.IntN(3) // none, few, many
		obj := g.definition()
		got := Create(t.Context(), obj)
		compare(t, "create", obj, nil, func() field.ErrorList { return kubernetes.ValidateCustomResourceDefinition(t.Context(), obj) }, got)
		count(fields, got)
		old := g.definition()
		if g.IntN(3) > 0 { // mostly a version of the same
			*old = *obj.DeepCopy()
			if s := first(obj); s != nil && g.IntN(2) == 0 {
				s.Properties["added"] = *g.schema(1)
			}
		}
		if g.IntN(2) == 0 {
			old.Status.Conditions = []apiextensions.CustomResourceDefinitionCondition{{Type: apiextensions.Established, Status: apiextensions.ConditionTrue}}
		}
		got = Update(t.Context(), obj, old)
		compare(t, "update", obj, old, func() field.ErrorList {
			return kubernetes.ValidateCustomResourceDefinitionUpdate(t.Context(), obj, old)
		}, got)
		count(fields, got)
		if len(got) == 0 {
			valid++
		}
		compare(t, "status", obj, old, func() field.ErrorList {
			return kubernetes.ValidateUpdateCustomResourceDefinitionStatus(t.Context(), obj, old)
		}, UpdateStatus(obj))
	}
	t.Logf("%d of %d updates are valid; %d kinds of errors", valid, rounds, len(fields))
	if valid < rounds/20 || len(fields) < 60 {
		t.Errorf("the generator is one-sided: %v", fields)
	}
}

// count counts errors by field and text, without names and numbers.
func count(fields map[string]int, errs field.ErrorList) {
	for _, e := range errs {
		at := strings.Map(func(r rune) rune {
			if r >= '0' && r <= '9' {
				return -1
			}
			return r
		}, e.Field[strings.LastIndexByte(e.Field, '.')+1:])
		fields[string(e.Type)+" "+at+" "+e.Detail[:min(len(e.Detail), 30)]]++
	}
}

// judge calls a function of Kubernetes, and reports whether it returns.
func judge(call func() field.ErrorList) (errs field.ErrorList, ok bool) {
	defer func() { _ = recover() }()
	return call(), true
}

// compare compares the results of two functions, of which Kubernetes' may panic.
func compare(t *testing.T, what string, obj, old *apiextensions.CustomResourceDefinition, kubernetes func() field.ErrorList, got field.ErrorList) {
	t.Helper()
	want, ok := judge(kubernetes)
	if !ok {
		if len(got) == 0 {
			t.Fatalf("%s: no error, and Kubernetes panics on %s", what, dump(obj))
		}
		return
	}
	if diff := gocmp.Diff(texts(want), texts(got)); diff != "" {
		t.Fatalf("%s (- Kubernetes, + Kapok):\n%s\nobject: %s\nold: %s", what, diff, dump(obj), dump(old))
	}
}

// anyOf matches what differs each time: names of types, and which field of several is found first.
var anyOf = regexp.MustCompile(`(selfType)[0-9]+|(OpenAPIV3Schema )'.*`)

// texts returns errors as text, in a fixed order: Kubernetes visits properties in any order.
func texts(errs field.ErrorList) []string {
	var all []string
	for _, e := range errs {
		if strings.HasPrefix(e.Field, "metadata.") && !strings.HasPrefix(e.Field, "metadata.annotations[api-approved") {
			continue // the rules of all kinds
		}
		text := e.Error()
		if _, ok := e.BadValue.(apiextensions.JSONSchemaProps); ok { // with addresses
			text = fmt.Sprintf("%s: %s: %s", e.Field, e.Type, e.Detail)
		}
		if _, ok := e.BadValue.([]apiextensions.CustomResourceDefinitionVersion); ok {
			text = fmt.Sprintf("%s: %s: %s", e.Field, e.Type, e.Detail)
		}
		if _, ok := e.BadValue.(apiextensions.ValidationRule); ok {
			text = fmt.Sprintf("%s: %s: %s", e.Field, e.Type, e.Detail)
		}
		if _, ok := e.BadValue.(*apiextensions.JSONSchemaPropsOrArray); ok {
			text = fmt.Sprintf("%s: %s: %s", e.Field, e.Type, e.Detail)
		}
		all = append(all, anyOf.ReplaceAllString(text, "$1$2"))
	}
	slices.SortFunc(all, cmp.Compare)
	return all
}

func dump(obj *apiextensions.CustomResourceDefinition) string {
	if obj == nil {
		return ""
	}
	data, err := json.Marshal(obj.Spec)
	if err != nil {
		return err.Error()
	}
	var tree map[string]any
	if err := json.Unmarshal(data, &tree); err != nil {
		return err.Error()
	}
	data, err = yaml.Marshal(sparse(tree))
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// sparse drops empty values.
func sparse(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			if e = sparse(e); e == nil || e == "" || e == false {
				delete(v, k)
			} else {
				v[k] = e
			}
		}
		if len(v) == 0 {
			return nil
		}
	case []any:
		for i := range v {
			v[i] = sparse(v[i])
		}
		if len(v) == 0 {
			return nil
		}
	}
	return v
}

func first(obj *apiextensions.CustomResourceDefinition) *apiextensions.JSONSchemaProps {
	for _, s := range roots(&obj.Spec) {
		if s.Properties != nil {
			return s
		}
	}
	return nil
}

// A generator makes random definitions.
type generator struct {
	*rand.Rand
	faults int // 0 for none, 1 for few, 2 for many
}

func pick[T any](g *generator, of ...T) T { return of[g.IntN(len(of))] }

// one reports true once in n times.
func (g *generator) one(n int) bool { return g.IntN(n) == 0 }

// fault reports whether to make a mistake, once in n places of a definition with many.
func (g *generator) fault(n int) bool {
	switch g.faults {
	case 0:
		return false
	case 1:
		n *= 8
	}
	return g.IntN(n) == 0
}

// name returns a name, with mistakes.
func (g *generator) name(good ...string) string {
	if g.fault(12) {
		return pick(g, "", "Bad_Name", "-x", strings.Repeat("a", 64), "9a", "a.b")
	}
	return pick(g, good...)
}

func (g *generator) definition() *apiextensions.CustomResourceDefinition {
	obj := &apiextensions.CustomResourceDefinition{}
	s := &obj.Spec
	s.Group = pick(g, "example.com", "example.com", "example.com", "a.k8s.io")
	if g.fault(20) {
		s.Group = pick(g, "", "com", "Bad.com", "-.com")
	}
	s.Scope = apiextensions.NamespaceScoped
	if g.fault(20) {
		s.Scope = pick[apiextensions.ResourceScope](g, "", "Other", apiextensions.ClusterScoped)
	}
	s.Names = g.names()
	obj.Name = s.Names.Plural + "." + s.Group
	s.PreserveUnknownFields = new(false)
	if g.fault(8) {
		s.PreserveUnknownFields = pick(g, nil, new(true))
	}
	for i := range 1 + g.IntN(3) {
		s.Versions = append(s.Versions, apiextensions.CustomResourceDefinitionVersion{
			Name: g.name(fmt.Sprintf("v%d", i+1)), Served: g.one(2), Storage: i == 0 != g.fault(10),
			Schema: &apiextensions.CustomResourceValidation{OpenAPIV3Schema: g.root()},
		})
		v := &s.Versions[i]
		if g.fault(10) {
			v.Schema = pick(g, nil, &apiextensions.CustomResourceValidation{})
		}
		if g.one(3) {
			v.Subresources = g.subresources()
		}
		if g.one(3) {
			v.AdditionalPrinterColumns = g.columns()
		}
		if g.one(3) {
			v.SelectableFields = g.selectable()
		}
		if g.one(5) {
			v.Deprecated = !g.fault(2)
			v.DeprecationWarning = new("old")
			if g.fault(3) {
				v.DeprecationWarning = new(pick(g, "", "a\nb", strings.Repeat("x", 300), "\xff", "a\x00"))
			}
		}
	}
	if g.one(4) { // one schema for all
		for i := range s.Versions {
			if !g.fault(3) {
				s.Versions[i].Schema, s.Versions[i].SelectableFields = nil, nil
			}
		}
		s.Validation = &apiextensions.CustomResourceValidation{OpenAPIV3Schema: g.root()}
		if g.one(3) {
			s.SelectableFields = g.selectable()
		}
		if g.one(3) {
			s.Subresources = g.subresources()
		}
		if g.one(3) {
			s.AdditionalPrinterColumns = g.columns()
		}
	}
	s.Version = s.Versions[0].Name
	if g.fault(15) {
		s.Version = pick(g, "", "Bad", "v9")
	}
	if g.one(3) {
		s.Conversion = g.conversion()
	}
	if g.faults == 0 {
		obj.Annotations = map[string]string{"api-approved.kubernetes.io": "https://github.com/kubernetes/kubernetes/pull/1"}
	} else if g.one(2) {
		obj.Annotations = map[string]string{"api-approved.kubernetes.io": pick(g, "https://github.com/kubernetes/kubernetes/pull/1", "unapproved, x", "other", "")}
	}
	for _, v := range s.Versions {
		if v.Storage || g.one(2) {
			obj.Status.StoredVersions = append(obj.Status.StoredVersions, v.Name)
		}
	}
	if g.fault(15) {
		obj.Status.StoredVersions = pick(g, nil, []string{"gone"}, []string{"v1", "gone", "gone"})
	}
	if g.one(2) {
		obj.Status.AcceptedNames = g.names()
	}
	return obj
}

func (g *generator) names() apiextensions.CustomResourceDefinitionNames {
	n := apiextensions.CustomResourceDefinitionNames{
		Plural: g.name("widgets"), Singular: g.name("widget"), Kind: g.name("Widget"), ListKind: g.name("WidgetList"),
	}
	if g.fault(20) {
		n.ListKind = n.Kind
	}
	for range g.IntN(3) {
		n.ShortNames = append(n.ShortNames, g.name("w", "wd"))
		n.Categories = append(n.Categories, g.name("all"))
	}
	return n
}

func (g *generator) path(good string) string {
	if g.fault(6) {
		return pick(g, "", ".", "x", ".other", "$.spec", ".spec[0]", ".spec.list[*].x")
	}
	return good
}

func (g *generator) subresources() *apiextensions.CustomResourceSubresources {
	s := &apiextensions.CustomResourceSubresources{}
	if g.one(2) {
		s.Status = &apiextensions.CustomResourceSubresourceStatus{}
	}
	if g.one(2) {
		s.Scale = &apiextensions.CustomResourceSubresourceScale{SpecReplicasPath: g.path(".spec.replicas"), StatusReplicasPath: g.path(".status.replicas")}
		if g.one(2) {
			s.Scale.LabelSelectorPath = new(g.path(".status.selector"))
		}
	}
	return s
}

func (g *generator) columns() (all []apiextensions.CustomResourceColumnDefinition) {
	for range 1 + g.IntN(2) {
		c := apiextensions.CustomResourceColumnDefinition{Name: "c", Type: pick(g, "string", "date", "integer"), JSONPath: g.path(".spec.x")}
		if g.fault(5) {
			c.Name, c.Type, c.Format = pick(g, "", "c"), pick(g, "", "text", "string"), pick(g, "", "odd", "int32")
		}
		all = append(all, c)
	}
	return all
}

func (g *generator) selectable() (all []apiextensions.SelectableField) {
	n := 1 + g.IntN(2)
	if g.fault(4) {
		n = 9
	}
	for i := range n {
		path := fmt.Sprintf(".spec.s%d", i)
		if g.fault(5) {
			path = pick(g, "", ".metadata.name", ".spec", "spec", ".spec.absent", ".spec.s0", ".kind")
		}
		all = append(all, apiextensions.SelectableField{JSONPath: path})
	}
	return all
}

func (g *generator) conversion() *apiextensions.CustomResourceConversion {
	c := &apiextensions.CustomResourceConversion{Strategy: pick(g, apiextensions.NoneConverter, apiextensions.WebhookConverter)}
	if g.fault(6) {
		c.Strategy = pick[apiextensions.ConversionStrategyType](g, "", "Other")
	}
	if (c.Strategy == apiextensions.WebhookConverter) == g.fault(5) {
		return c
	}
	c.ConversionReviewVersions = []string{"v1"}
	if g.fault(3) {
		c.ConversionReviewVersions = pick(g, nil, []string{"v2"}, []string{"v1", "v1", "Bad"}, []string{"v1beta1", "-"})
	}
	w := &apiextensions.WebhookClientConfig{}
	c.WebhookClientConfig = w
	if g.one(2) != g.fault(5) {
		w.URL = new("https://example.com/convert")
		if g.fault(2) {
			w.URL = new(pick(g, "", "http://x", "https://", "https://a@b/", "https://a/#f", "https://a/?q", "%zz", "example.com"))
		}
	} else {
		w.Service = &apiextensions.ServiceReference{Namespace: "ns", Name: "svc", Port: 443}
		if g.fault(2) {
			w.Service = &apiextensions.ServiceReference{Namespace: pick(g, "", "ns"), Name: pick(g, "", "svc"), Port: pick[int32](g, 0, 443, 70000)}
			w.Service.Path = pick(g, nil, new(""), new("/"), new("//"), new("/a/b/"), new("a"), new("/a//b"), new("/A_b"))
		}
	}
	if g.fault(3) {
		w.CABundle = []byte("no certificate")
	}
	return c
}

// root returns the schema of a version, in which the selectable fields exist.
func (g *generator) root() *apiextensions.JSONSchemaProps {
	s := &apiextensions.JSONSchemaProps{Type: "object", Properties: map[string]apiextensions.JSONSchemaProps{}}
	spec := &apiextensions.JSONSchemaProps{Type: "object", Properties: map[string]apiextensions.JSONSchemaProps{}}
	for i := range 9 {
		spec.Properties[fmt.Sprintf("s%d", i)] = apiextensions.JSONSchemaProps{Type: "string"}
	}
	for i := range g.IntN(5) {
		spec.Properties[fmt.Sprintf("p%d", i)] = *g.schema(3)
	}
	g.rules(spec)
	s.Properties["spec"] = *spec
	if g.one(3) {
		s.Properties["status"] = *g.schema(2)
	}
	if g.one(6) {
		s.Properties["metadata"] = apiextensions.JSONSchemaProps{Type: "object"}
		if g.fault(2) {
			s.Properties["metadata"] = *g.schema(2)
		}
	}
	if g.fault(8) {
		s.Properties["kind"] = apiextensions.JSONSchemaProps{Type: "string", Default: g.value()}
	}
	if g.fault(10) {
		s.Nullable = true
	}
	if g.fault(10) {
		s.Type = pick(g, "", "array", "string")
	}
	if g.fault(8) {
		g.spoil(s)
	}
	if g.one(3) {
		g.rules(s)
	}
	return s
}

func (g *generator) value() *apiextensions.JSON {
	var v apiextensions.JSON = pick[any](g, "x", int64(1), true, nil, map[string]any{"a": "b"}, []any{"a"}, map[string]any{})
	return &v
}

// schema returns a schema with up to depth more levels.
func (g *generator) schema(depth int) *apiextensions.JSONSchemaProps {
	s := &apiextensions.JSONSchemaProps{}
	kinds := []string{"string", "integer", "boolean", "number"}
	if depth > 0 {
		kinds = append(kinds, "object", "array", "map", "object", "array")
	}
	switch kind := pick(g, kinds...); kind {
	case "object":
		s.Type, s.Properties = kind, map[string]apiextensions.JSONSchemaProps{}
		for _, name := range []string{"a", "b", "metadata", "x-y"}[:1+g.IntN(4)] {
			s.Properties[name] = *g.schema(depth - 1)
		}
		if g.one(5) {
			s.XMapType = new(pick(g, "atomic", "granular"))
		}
		if g.one(8) {
			s.XPreserveUnknownFields = new(true)
		}
		if g.fault(4) {
			s.XEmbeddedResource = true
		}
	case "map":
		s.Type, s.AdditionalProperties = "object", &apiextensions.JSONSchemaPropsOrBool{Allows: true, Schema: g.schema(depth - 1)}
		if g.one(2) {
			s.MaxProperties = new(int64(pick(g, 0, 10, 1000)))
		}
	case "array":
		g.array(s, depth)
	default:
		s.Type = kind
		if g.one(3) {
			s.MaxLength = new(int64(pick(g, 10, 1000)))
		}
		if g.one(8) {
			s.Enum = []apiextensions.JSON{"x", "y"}
		}
		if g.one(10) {
			s.Type, s.XIntOrString = "", true
		}
	}
	if g.fault(3) {
		s.Nullable = true
	}
	if g.fault(2) {
		s.Default = g.value()
		if !g.fault(1) {
			s.Default = g.fitting(s.Type)
		}
	}
	if g.one(6) {
		s.AllOf = []apiextensions.JSONSchemaProps{{MaxLength: new(int64(3))}}
		if g.fault(2) {
			s.AllOf = []apiextensions.JSONSchemaProps{*g.schema(depth - 1)}
		}
	}
	if g.fault(4) {
		g.spoil(s)
	}
	if g.one(4) {
		g.rules(s)
	}
	return s
}

func (g *generator) fitting(kind string) *apiextensions.JSON {
	var v apiextensions.JSON
	switch kind {
	case "string":
		v = "x"
	case "integer", "number":
		v = int64(1)
	case "boolean":
		v = true
	case "array":
		v = []any{}
	case "object":
		v = map[string]any{}
	default:
		return nil
	}
	return &v
}

func (g *generator) array(s *apiextensions.JSONSchemaProps, depth int) {
	s.Type, s.Items = "array", &apiextensions.JSONSchemaPropsOrArray{Schema: g.schema(depth - 1)}
	if g.one(2) {
		s.MaxItems = new(int64(pick(g, 0, 10, 1000)))
	}
	switch g.IntN(4) {
	case 0:
		s.XListType = new(pick(g, "set", "atomic"))
	case 1:
		s.XListType, s.XListMapKeys = new("map"), []string{"a"}
		s.Items.Schema = &apiextensions.JSONSchemaProps{Type: "object", Required: []string{"a"}, Properties: map[string]apiextensions.JSONSchemaProps{"a": {Type: "string"}}}
		if g.fault(2) {
			s.XListMapKeys = pick(g, nil, []string{"b"}, []string{"a", "a"})
			s.Items.Schema = g.schema(depth - 1)
		}
		if g.fault(2) {
			s.Items.Schema.Required = nil
		}
	}
	if g.fault(4) {
		s.XListType = new(pick(g, "odd", "map", "set"))
	}
	if g.fault(8) {
		s.XListMapKeys = []string{"a"}
	}
}

// spoil makes a mistake in a schema.
func (g *generator) spoil(s *apiextensions.JSONSchemaProps) {
	switch g.IntN(18) {
	case 0:
		s.ID = "x"
	case 1:
		s.AdditionalItems = &apiextensions.JSONSchemaPropsOrBool{Allows: true}
	case 2:
		s.PatternProperties = map[string]apiextensions.JSONSchemaProps{"x": {}}
	case 3:
		s.Definitions = apiextensions.JSONSchemaDefinitions{"x": *g.schema(0)}
	case 4:
		s.Dependencies = apiextensions.JSONSchemaDependencies{"x": {Schema: g.schema(0)}}
	case 5:
		s.Ref = new("#/x")
	case 6:
		s.Type = pick(g, "null", "odd", "")
	case 7:
		if s.Items != nil {
			s.Items = &apiextensions.JSONSchemaPropsOrArray{JSONSchemas: []apiextensions.JSONSchemaProps{*g.schema(0), *g.schema(0)}}
		}
	case 8:
		s.XEmbeddedResource = true
	case 9:
		s.UniqueItems = true
	case 10:
		s.AdditionalProperties = &apiextensions.JSONSchemaPropsOrBool{Allows: g.one(2), Schema: pick(g, nil, g.schema(0))}
	case 11:
		s.XPreserveUnknownFields = new(false)
	case 12:
		s.XMapType = new(pick(g, "odd", "atomic"))
	case 13:
		s.XListType = new(pick(g, "odd", "map"))
	case 14:
		s.Not = g.schema(0)
	case 15:
		s.OneOf = []apiextensions.JSONSchemaProps{*g.schema(1), {}}
	case 16:
		s.AnyOf = []apiextensions.JSONSchemaProps{{Required: []string{"a"}}, *g.schema(0)}
	case 17:
		s.Pattern = "("
	}
}

// rules adds rules to a schema.
func (g *generator) rules(s *apiextensions.JSONSchemaProps) {
	for range g.IntN(3) {
		r := apiextensions.ValidationRule{Rule: pick(g, "true", "self == self", "self == oldSelf", "has(self.a)", "self.all(x, x == x)", "size(self) > 0")}
		switch g.IntN(6) {
		case 0:
			r.Message = "m"
		case 1:
			r.MessageExpression = pick(g, "'m'", "string(self)", "1")
		case 2:
			r.OptionalOldSelf = new(g.one(2))
		case 3:
			r.FieldPath = pick(g, ".a", ".b.c", ".s0")
			r.Reason = new(pick(g, apiextensions.FieldValueInvalid, apiextensions.FieldValueRequired))
		case 4:
			if s.Type == "array" || s.Type == "object" && s.AdditionalProperties != nil {
				r.Rule = "self.all(x, self.all(y, self.all(z, x == y && y == z)))"
			}
		}
		if g.fault(3) {
			r.Rule = pick(g, "", " ", "self.absent", "a b", "true\n&& true", "1", r.Rule)
			r.Message = pick(g, "", " ", "a\nb", r.Message)
			r.MessageExpression = pick(g, "", " ", "self.absent", r.MessageExpression)
			r.FieldPath = pick(g, "", " ", "a", ".a\n", r.FieldPath)
			if g.one(3) {
				r.Reason = new(apiextensions.FieldValueErrorReason("Odd"))
			}
		}
		if g.faults == 0 && !g.one(20) {
			r = apiextensions.ValidationRule{Rule: pick(g, "true", "self == self"), Message: r.Message}
		}
		s.XValidations = append(s.XValidations, r)
	}
}
