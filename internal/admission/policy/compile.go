package policy

import (
	"fmt"
	"sync"

	"github.com/kapok-dev/kapok/internal/schema/expression"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types/traits"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/version"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"
	"k8s.io/apiserver/pkg/cel/mutation"
)

// expressions are the compiled expressions of one policy.
type expressions struct {
	variables   *variables
	conditions  []condition
	validations []validation
	annotations []annotation
	mutations   []mutationProgram
}

type condition struct {
	name string
	program
}

type validation struct {
	admissionv1.Validation
	program
	message *program // of messageExpression; nil if there is none
}

type annotation struct {
	key string
	program
}

type mutationProgram struct {
	kind admissionv1.PatchType
	program
}

// A program is a compiled expression, or its error.
type program struct {
	text    string
	program cel.Program
	returns *cel.Type
	err     *apiservercel.Error
}

func compileValidating(spec *admissionv1.ValidatingAdmissionPolicySpec) *expressions {
	c := newCompiler(spec.ParamKind != nil, spec.Variables)
	x := &expressions{variables: c.variables, conditions: c.conditions(spec.MatchConditions)}
	for _, v := range spec.Validations {
		compiled := validation{Validation: v, program: c.compile(v.Expression, c.all, cel.BoolType)}
		if v.MessageExpression != "" {
			message := c.compile(v.MessageExpression, plugincel.OptionalVariableDeclarations{HasParams: c.all.HasParams}, cel.StringType)
			compiled.message = &message
		}
		x.validations = append(x.validations, compiled)
	}
	for _, a := range spec.AuditAnnotations {
		x.annotations = append(x.annotations, annotation{a.Key, c.compile(a.ValueExpression, c.all, cel.StringType, cel.NullType)})
	}
	return x
}

func compileMutating(spec *admissionv1.MutatingAdmissionPolicySpec) *expressions {
	c := newCompiler(spec.ParamKind != nil, spec.Variables)
	x := &expressions{variables: c.variables, conditions: c.conditions(spec.MatchConditions)}
	patching := c.all
	patching.HasPatchTypes = true
	for _, m := range spec.Mutations {
		switch {
		case m.PatchType == admissionv1.PatchTypeJSONPatch && m.JSONPatch != nil:
			p := c.compile(m.JSONPatch.Expression, patching, cel.ListType(cel.ObjectType("JSONPatch")))
			x.mutations = append(x.mutations, mutationProgram{m.PatchType, p})
		case m.PatchType == admissionv1.PatchTypeApplyConfiguration && m.ApplyConfiguration != nil:
			p := c.compile(m.ApplyConfiguration.Expression, patching, cel.ObjectType("Object"))
			x.mutations = append(x.mutations, mutationProgram{m.PatchType, p})
		}
	}
	return x
}

// A compiler compiles the expressions of one policy, which can use its variables.
type compiler struct {
	all       plugincel.OptionalVariableDeclarations // what most expressions can use
	variables *variables                             // nil if there are none
	envs      map[plugincel.OptionalVariableDeclarations]*cel.Env
}

// variables are those that a policy declares, by name.
type variables struct {
	object   *apiservercel.DeclType
	programs map[string]program
}

func newCompiler(params bool, declared []admissionv1.Variable) *compiler {
	c := &compiler{
		all:  plugincel.OptionalVariableDeclarations{HasParams: params, HasAuthorizer: true},
		envs: map[plugincel.OptionalVariableDeclarations]*cel.Env{},
	}
	// The object of variables exists even if the policy declares none.
	c.variables = &variables{
		object:   apiservercel.NewObjectType("kubernetes.variables", map[string]*apiservercel.DeclField{}),
		programs: map[string]program{},
	}
	for _, v := range declared { // each can use those before it
		p := c.compile(v.Expression, c.all, cel.AnyType)
		c.variables.object.Fields[v.Name] = apiservercel.NewDeclField(v.Name, declTypeOf(p.returns), true, nil, nil)
		c.variables.programs[v.Name] = p
	}
	return c
}

func (c *compiler) conditions(all []admissionv1.MatchCondition) []condition {
	var compiled []condition
	for _, m := range all {
		compiled = append(compiled, condition{m.Name, c.compile(m.Expression, c.all, cel.BoolType)})
	}
	return compiled
}

// compile compiles an expression that must have one of the given types; AnyType allows all.
func (c *compiler) compile(text string, may plugincel.OptionalVariableDeclarations, returns ...*cel.Type) program {
	failed := func(t apiservercel.ErrorType, format string, args ...any) program {
		return program{text: text, err: &apiservercel.Error{Type: t, Detail: fmt.Sprintf(format, args...)}}
	}
	env, err := c.env(may)
	if err != nil {
		return failed(apiservercel.ErrorTypeInternal, "unexpected error loading CEL environment: %v", err)
	}
	ast, issues := env.Compile(text)
	if issues != nil {
		return failed(apiservercel.ErrorTypeInvalid, "compilation failed: %s", issues)
	}
	if !fits(ast.OutputType(), returns) {
		if len(returns) == 1 {
			return failed(apiservercel.ErrorTypeInvalid, "must evaluate to %v but got %v", returns[0], ast.OutputType())
		}
		return failed(apiservercel.ErrorTypeInvalid, "must evaluate to one of %v but got %v", returns, ast.OutputType())
	}
	compiled, err := env.Program(ast, cel.InterruptCheckFrequency(celconfig.CheckFrequency))
	if err != nil {
		return failed(apiservercel.ErrorTypeInternal, "program instantiation failed: %v", err)
	}
	return program{text: text, program: compiled, returns: ast.OutputType()}
}

func fits(t *cel.Type, wanted []*cel.Type) bool {
	for _, w := range wanted {
		if w == cel.AnyType || t.IsExactType(w) {
			return true
		}
	}
	return false
}

// env returns the environment of an expression, without the variables of the policy.
func (c *compiler) env(may plugincel.OptionalVariableDeclarations) (*cel.Env, error) {
	if env := c.envs[may]; env != nil {
		return env, nil
	}
	shared, err := environments()[may]()
	if err != nil {
		return nil, err
	}
	own, err := shared.Extend(environment.VersionedOptions{
		IntroducedVersion: always,
		EnvOptions:        []cel.EnvOption{cel.Variable(plugincel.VariableVarName, c.variables.object.CelType())},
		DeclTypes:         []*apiservercel.DeclType{c.variables.object},
	})
	if err != nil {
		return nil, err
	}
	env := own.StoredExpressionsEnv()
	c.envs[may] = env
	return env, nil
}

// always is the version of features that every version of Kubernetes has.
var always = version.MajorMinor(1, 0)

// environments are shared by all policies, and each is created on first use.
var environments = sync.OnceValue(func() map[plugincel.OptionalVariableDeclarations]func() (*environment.EnvSet, error) {
	all := map[plugincel.OptionalVariableDeclarations]func() (*environment.EnvSet, error){}
	for _, may := range []plugincel.OptionalVariableDeclarations{
		{}, {HasParams: true},
		{HasAuthorizer: true}, {HasParams: true, HasAuthorizer: true},
		{HasAuthorizer: true, HasPatchTypes: true}, {HasParams: true, HasAuthorizer: true, HasPatchTypes: true},
	} {
		all[may] = sync.OnceValues(func() (*environment.EnvSet, error) { return extend(expression.Environments(), may) })
	}
	return all
})

// extend adds the variables of admission to Kubernetes' environment.
func extend(base *environment.EnvSet, may plugincel.OptionalVariableDeclarations) (*environment.EnvSet, error) {
	request, namespace := plugincel.BuildRequestType(), plugincel.BuildNamespaceType()
	declared := []cel.EnvOption{
		cel.Variable(plugincel.ObjectVarName, cel.DynType),
		cel.Variable(plugincel.OldObjectVarName, cel.DynType),
		cel.Variable(plugincel.NamespaceVarName, namespace.CelType()),
		cel.Variable(plugincel.RequestVarName, request.CelType()),
	}
	if may.HasParams {
		declared = append(declared, cel.Variable(plugincel.ParamsVarName, cel.DynType))
	}
	if may.HasAuthorizer {
		declared = append(declared,
			cel.Variable(plugincel.AuthorizerVarName, library.AuthorizerType),
			cel.Variable(plugincel.RequestResourceAuthorizerVarName, library.ResourceCheckType))
	}
	env, err := base.Extend(environment.VersionedOptions{
		IntroducedVersion: always, EnvOptions: declared, DeclTypes: []*apiservercel.DeclType{namespace, request},
	}, environment.StrictCostOpt)
	if err != nil || !may.HasPatchTypes {
		return env, err
	}
	return env.Extend(environment.VersionedOptions{
		IntroducedVersion: always,
		EnvOptions: []cel.EnvOption{
			common.ResolverEnvOption(&mutation.DynamicTypeResolver{}),
			environment.UnversionedLib(library.JSONPatch),
		},
	})
}

// declTypeOf returns a type for the declaration of a variable.
func declTypeOf(t *cel.Type) *apiservercel.DeclType {
	switch t {
	case nil:
		return apiservercel.DynType
	case cel.AnyType:
		return apiservercel.AnyType
	case cel.BoolType:
		return apiservercel.BoolType
	case cel.BytesType:
		return apiservercel.BytesType
	case cel.DoubleType:
		return apiservercel.DoubleType
	case cel.DurationType:
		return apiservercel.DurationType
	case cel.IntType:
		return apiservercel.IntType
	case cel.NullType:
		return apiservercel.NullType
	case cel.StringType:
		return apiservercel.StringType
	case cel.TimestampType:
		return apiservercel.TimestampType
	case cel.UintType:
		return apiservercel.UintType
	}
	if !t.HasTrait(traits.ContainerType) || !t.HasTrait(traits.IndexerType) {
		return apiservercel.DynType
	}
	switch of := t.Parameters(); len(of) {
	case 1:
		return apiservercel.NewListType(declTypeOf(of[0]), -1)
	case 2:
		return apiservercel.NewMapType(declTypeOf(of[0]), declTypeOf(of[1]), -1)
	}
	return apiservercel.DynType
}
