package validation

import (
	"errors"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

// What expressions may be worth, by what they are for.
var (
	conditionTypes     = []*cel.Type{cel.BoolType}
	messageTypes       = []*cel.Type{cel.StringType}
	annotationTypes    = []*cel.Type{cel.StringType, cel.NullType}
	variableTypes      = []*cel.Type{cel.AnyType, cel.DynType}
	configurationTypes = []*cel.Type{cel.ObjectType("Object")}
	patchTypes         = []*cel.Type{cel.ListType(cel.ObjectType("JSONPatch"))}
)

// expressions say what may be used in the expressions of an object.
type expressions struct {
	plugincel.OptionalVariableDeclarations
	// compiler knows the variables that have been declared; nil where there are none.
	compiler plugincel.Compiler
	// stored are expressions that were there before. They may use what new ones may not.
	stored map[string]bool
}

// compile finds what is wrong with an expression.
func (x expressions) compile(text string, returns []*cel.Type, at *field.Path) field.ErrorList {
	compiler := x.compiler
	if compiler == nil {
		compiler = plainCompiler()
	}
	e := &expression{text: text, returns: returns}
	return celErrors(compiler.CompileCELExpression(e, x.OptionalVariableDeclarations, x.age(text)).Error, text, at)
}

// declare compiles a variable, which expressions that come later may use.
func (x expressions) declare(name, text string, at *field.Path) field.ErrorList {
	compiler, ok := x.compiler.(*plugincel.CompositedCompiler)
	if !ok {
		return field.ErrorList{field.InternalError(at, errors.New("variable composition is not allowed"))}
	}
	e := &expression{text: text, returns: variableTypes, name: name}
	return celErrors(compiler.CompileAndStoreVariable(e, x.OptionalVariableDeclarations, x.age(text)).Error, text, at)
}

func (x expressions) age(text string) environment.Type {
	if x.stored[text] {
		return environment.StoredExpressions
	}
	return environment.NewExpressions
}

// expression is what the compiler asks of one.
type expression struct {
	text    string
	returns []*cel.Type
	name    string // of a variable
}

func (e *expression) GetExpression() string    { return e.text }
func (e *expression) ReturnTypes() []*cel.Type { return e.returns }
func (e *expression) GetName() string          { return e.name }

func celErrors(err *apiservercel.Error, text string, at *field.Path) field.ErrorList {
	if err == nil {
		return nil
	}
	switch err.Type {
	case apiservercel.ErrorTypeRequired:
		return field.ErrorList{field.Required(at, err.Detail)}
	case apiservercel.ErrorTypeInvalid:
		return field.ErrorList{field.Invalid(at, text, err.Detail)}
	}
	return field.ErrorList{field.InternalError(at, err)}
}

// plainCompiler compiles expressions without variables of others. Making one takes longer than using it.
var plainCompiler = sync.OnceValue(func() plugincel.Compiler {
	return plugincel.NewCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
})

// validateMatchConditions judges the conditions under which somebody wants to be asked.
func validateMatchConditions(conditions []admissionv1.MatchCondition, x expressions, at *field.Path) (all field.ErrorList) {
	if len(conditions) > 64 {
		all = append(all, field.TooMany(at, len(conditions), 64))
	}
	x.compiler, x.HasAuthorizer = nil, true
	names := map[string]bool{}
	for i, c := range conditions {
		at := at.Index(i)
		if text := strings.TrimSpace(c.Expression); text == "" {
			all = append(all, field.Required(at.Child("expression"), ""))
		} else {
			all = append(all, x.compile(text, conditionTypes, at.Child("expression"))...)
		}
		if c.Name == "" {
			all = append(all, field.Required(at.Child("name"), ""))
			continue
		}
		all = append(all, validateQualified(at.Child("name"), c.Name)...)
		if names[c.Name] {
			all = append(all, field.Duplicate(at.Child("name"), c.Name))
		}
		names[c.Name] = true
	}
	return all
}
