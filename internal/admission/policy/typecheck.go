package policy

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/internal/celwork"
	"github.com/kapok-dev/kapok/internal/kinds/openapi"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/schema/expression"

	"github.com/google/cel-go/cel"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"
	celopenapi "k8s.io/apiserver/pkg/cel/openapi"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

const (
	// mostTypes is the maximum number of kinds of a rule for which a policy is checked.
	mostTypes = 10
	// mostKinds is the maximum number of kinds of all rules.
	mostKinds = 100
	// mostNames is the maximum number of names of resources that are looked up for these.
	mostNames = 100_000
	// mostWork bounds the work to check a policy for all kinds, in the units of package celwork.
	mostWork = 4 * celwork.ObjectLimit
	// mostWarnings bounds the bytes of all warnings, which are written to the status of the policy.
	mostWarnings = 64 << 10
)

// typeWarnings returns the type errors of a policy's expressions for the kinds that its rules name.
// They do not disable the policy: expressions are evaluated without static types. If the check
// exceeds one of the limits above, the last warning names the first kind that is not checked. An
// error means that ctx has ended.
func typeWarnings(ctx context.Context, set *resource.Set, spec *admissionv1.ValidatingAdmissionPolicySpec) (warnings []admissionv1.ExpressionWarning, err error) {
	expressions := expressionsOf(spec)
	issues := make([][]string, len(expressions)) // of all kinds
	var unchecked []admissionv1.ExpressionWarning
	budget, size := celwork.NewBudgetOf(ctx, mostWork), 0
	for i, gvk := range kindsToCheck(set, spec.MatchConstraints) {
		c, err := newTypeChecker(set, spec, gvk, budget)
		if err != nil {
			continue
		}
		of, err := c.issues(expressions)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		for _, text := range of {
			size += len(text)
		}
		if err != nil || size > mostWarnings || i == mostKinds {
			unchecked = append(unchecked, admissionv1.ExpressionWarning{
				FieldRef: "spec.matchConstraints",
				Warning:  fmt.Sprintf("types are not checked for %v and the kinds after it: the policy has too many expressions, kinds or type errors", gvk),
			})
			break
		}
		for i, text := range of {
			if text != "" {
				issues[i] = append(issues[i], fmt.Sprintf("%v: %s\n", gvk, text))
			}
		}
	}
	for i, of := range issues {
		if len(of) > 0 {
			warnings = append(warnings, admissionv1.ExpressionWarning{FieldRef: expressions[i].at, Warning: strings.Join(of, "\n")})
		}
	}
	return append(warnings, unchecked...), nil
}

// A typedExpression is an expression whose types are checked.
type typedExpression struct{ text, at string }

func expressionsOf(spec *admissionv1.ValidatingAdmissionPolicySpec) (expressions []typedExpression) {
	for i, v := range spec.Validations {
		at := field.NewPath("spec", "validations").Index(i)
		expressions = append(expressions, typedExpression{v.Expression, at.Child("expression").String()})
		if v.MessageExpression != "" {
			expressions = append(expressions, typedExpression{v.MessageExpression, at.Child("messageExpression").String()})
		}
	}
	return expressions
}

// A typeChecker compiles the expressions of a policy for objects of a kind.
type typeChecker struct {
	spec   *admissionv1.ValidatingAdmissionPolicySpec
	object *apiservercel.DeclType // nil if unknown
	params *apiservercel.DeclType // nil if unknown
	budget *celwork.Budget
}

// newTypeChecker returns an error if the kind has no schema.
func newTypeChecker(set *resource.Set, spec *admissionv1.ValidatingAdmissionPolicySpec, gvk schema.GroupVersionKind, budget *celwork.Budget) (*typeChecker, error) {
	object, err := typeOf(set, gvk, gvk.Kind)
	if err != nil {
		return nil, err
	}
	c := &typeChecker{spec: spec, object: object, budget: budget}
	if spec.ParamKind != nil {
		if gv, err := schema.ParseGroupVersion(spec.ParamKind.APIVersion); err == nil {
			// The name must differ from that of the objects, which can be of another version of the
			// same kind.
			c.params, _ = typeOf(set, gv.WithKind(spec.ParamKind.Kind), spec.ParamKind.Kind+"Params")
		}
	}
	return c, nil
}

// kindsToCheck returns the kinds that rules name without a wildcard, in order.
func kindsToCheck(set *resource.Set, m *admissionv1.MatchResources) (kinds []schema.GroupVersionKind) {
	if m == nil {
		return nil
	}
	names := 0
	for _, rule := range m.ResourceRules {
		if slices.ContainsFunc(rule.APIGroups, wild) || slices.ContainsFunc(rule.APIVersions, wild) {
			continue
		}
		plurals := slices.DeleteFunc(slices.Clone(rule.Resources), func(name string) bool { return strings.ContainsAny(name, "*/") })
		count := 0
		for _, group := range slices.Sorted(slices.Values(rule.APIGroups)) {
			for _, version := range slices.Sorted(slices.Values(rule.APIVersions)) {
				for _, plural := range slices.Sorted(slices.Values(plurals)) {
					if names++; names > mostNames {
						return sorted(kinds)
					}
					gv := schema.GroupVersion{Group: group, Version: version}
					d := set.Resource(gv.WithResource(plural).GroupResource())
					if d == nil || d.Version(gv) == nil {
						continue
					}
					if gvk := d.GroupVersionKind(d.Version(gv)); !slices.Contains(kinds, gvk) {
						kinds = append(kinds, gvk)
					}
					if count++; count == mostTypes {
						return sorted(kinds)
					}
				}
			}
		}
	}
	return sorted(kinds)
}

func wild(name string) bool { return strings.Contains(name, "*") }

func sorted(kinds []schema.GroupVersionKind) []schema.GroupVersionKind {
	slices.SortFunc(kinds, func(a, b schema.GroupVersionKind) int {
		return slices.Compare([]string{a.Group, a.Version, a.Kind}, []string{b.Group, b.Version, b.Kind})
	})
	return kinds
}

// issues returns the type errors of each expression, "" if it has none. It returns an error if the
// budget is spent.
func (c *typeChecker) issues(expressions []typedExpression) ([]string, error) {
	all := make([]string, len(expressions))
	variables := apiservercel.NewObjectType("kubernetes.variables", map[string]*apiservercel.DeclField{})
	env, err := c.env(variables)
	if err != nil {
		for i := range all {
			all[i] = fmt.Sprintf("type checking error: %v", err)
		}
		return all, nil
	}
	for _, v := range c.spec.Variables { // a variable may use those before it
		text, err := c.budget.Declare(v.Expression)
		if err != nil {
			return nil, err
		}
		var of *cel.Type
		if ast, issues := env.Compile(text); issues == nil {
			of = ast.OutputType()
		}
		variables.Fields[v.Name] = apiservercel.NewDeclField(v.Name, declTypeOf(of), true, nil, nil)
	}
	for i, e := range expressions {
		text, err := c.budget.Spend(e.text)
		if err != nil {
			return nil, err
		}
		_, issues := env.Compile(text)
		if issues != nil && c.budget.Failed(e.text, text, issues.String()) {
			_, issues = env.Compile(e.text)
		}
		if issues != nil {
			all[i] = issues.String()
		}
	}
	return all, nil
}

// env returns the environment of expressions for objects of the kind.
func (c *typeChecker) env(variables *apiservercel.DeclType) (*cel.Env, error) {
	request, namespace := plugincel.BuildRequestType(), plugincel.BuildNamespaceType()
	types := []*apiservercel.DeclType{namespace, request}
	declared := []cel.EnvOption{
		cel.Variable(plugincel.NamespaceVarName, namespace.CelType()),
		cel.Variable(plugincel.RequestVarName, request.CelType()),
		cel.Variable(plugincel.AuthorizerVarName, library.AuthorizerType),
		cel.Variable(plugincel.VariableVarName, variables.CelType()),
	}
	declare := func(t *apiservercel.DeclType, names ...string) {
		of := cel.DynType
		if t != nil {
			types, of = append(types, t), t.CelType()
		}
		for _, name := range names {
			declared = append(declared, cel.Variable(name, of))
		}
	}
	declare(c.object, plugincel.ObjectVarName, plugincel.OldObjectVarName)
	if c.spec.ParamKind != nil {
		declare(c.params, plugincel.ParamsVarName)
	}
	env, err := expression.Environments().Extend(environment.VersionedOptions{
		IntroducedVersion: always, EnvOptions: declared, DeclTypes: append(types, variables),
	})
	if err != nil {
		return nil, err
	}
	return env.StoredExpressionsEnv(), nil
}

// typeOf returns the type of the objects of a kind, with a name for messages; nil if its schema
// specifies nothing. It returns an error if the kind has no schema.
func typeOf(set *resource.Set, gvk schema.GroupVersionKind, name string) (*apiservercel.DeclType, error) {
	d := set.Kind(gvk.GroupKind())
	if d == nil {
		return nil, fmt.Errorf("no kind %v", gvk)
	}
	v := d.Version(gvk.GroupVersion())
	if v == nil {
		return nil, fmt.Errorf("no version %v", gvk)
	}
	s, err := schemaOf(v, gvk)
	if err != nil {
		return nil, err
	}
	t := common.SchemaDeclType(&celopenapi.Schema{Schema: s}, true)
	if t == nil {
		return nil, nil
	}
	return t.MaybeAssignTypeName(name), nil
}

// schemaOf returns the schema of a kind with all references expanded.
func schemaOf(v *resource.Version, gvk schema.GroupVersionKind) (*spec.Schema, error) {
	if v.Published == nil {
		name := openapi.Builtin().NameOf(gvk)
		s, ok := openapi.Builtin().Lean(name)
		if !ok {
			return nil, fmt.Errorf("no schema of %v", gvk)
		}
		return inPlace(s, []string{name}), nil
	}
	s := &spec.Schema{}
	data, err := v.Published.Schema()
	if err != nil {
		return nil, err
	}
	if len(data) > 0 {
		if err := json.Unmarshal(data, s); err != nil {
			return nil, err
		}
	}
	if len(s.Properties) == 0 {
		return s, nil
	}
	s.Properties["apiVersion"], s.Properties["kind"] = *spec.StringProperty(), *spec.StringProperty()
	if meta, ok := openapi.Builtin().Lean(objectMeta); ok {
		s.Properties["metadata"] = *inPlace(meta, nil)
	}
	return s, nil
}

const objectMeta = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"

// inPlace expands the references of a schema. above has the names of the definitions that contain
// it: a recursive one becomes an object without specified fields.
func inPlace(s *spec.Schema, above []string) *spec.Schema {
	if name := reference(s); name != "" {
		to, ok := openapi.Builtin().Lean(name)
		if !ok || slices.Contains(above, name) {
			return &spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{"object"}}}
		}
		s, above = to, append(slices.Clip(above), name)
	}
	whole := *s
	if len(s.Properties) > 0 {
		whole.Properties = make(map[string]spec.Schema, len(s.Properties))
		for name, p := range s.Properties {
			whole.Properties[name] = *inPlace(&p, above)
		}
	}
	if a := s.AdditionalProperties; a != nil && a.Schema != nil {
		whole.AdditionalProperties = &spec.SchemaOrBool{Allows: a.Allows, Schema: inPlace(a.Schema, above)}
	}
	if i := s.Items; i != nil && i.Schema != nil {
		whole.Items = &spec.SchemaOrArray{Schema: inPlace(i.Schema, above)}
	}
	return &whole
}

// reference returns the name of the definition that a schema refers to, or "".
func reference(s *spec.Schema) string {
	ref := s.Ref.String()
	for i := range s.AllOf {
		if ref == "" {
			ref = s.AllOf[i].Ref.String()
		}
	}
	return ref[strings.LastIndexByte(ref, '/')+1:]
}
