package policies

import (
	"errors"
	"strings"
	"sync"

	"github.com/kapok-dev/kapok/internal/celwork"
	"github.com/kapok-dev/kapok/internal/kinds/rule"

	"github.com/google/cel-go/cel"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

// The types that expressions may return, by their use.
var (
	conditionTypes     = []*cel.Type{cel.BoolType}
	messageTypes       = []*cel.Type{cel.StringType}
	annotationTypes    = []*cel.Type{cel.StringType, cel.NullType}
	variableTypes      = []*cel.Type{cel.AnyType, cel.DynType}
	configurationTypes = []*cel.Type{cel.ObjectType("Object")}
	patchTypes         = []*cel.Type{cel.ListType(cel.ObjectType("JSONPatch"))}
)

// expressions has what the expressions of an object may use.
type expressions struct {
	budget *celwork.Budget
	plugincel.OptionalVariableDeclarations
	// compiler has the declared variables; nil if there are none.
	compiler plugincel.Compiler
	// stored are the expressions of the old object, which may use features that new ones may not.
	stored map[string]bool
}

// compile returns the errors of an expression.
func (x expressions) compile(text string, returns []*cel.Type, at *field.Path) field.ErrorList {
	compiled, err := x.budget.Spend(text)
	if err != nil {
		return field.ErrorList{field.Forbidden(at, "too complex, "+err.Error())}
	}
	compiler := x.compiler
	if compiler == nil {
		compiler = plainCompiler()
	}
	return x.errors(text, compiled, at, func(text string) *apiservercel.Error {
		e := &expression{text: text, returns: returns}
		return compiler.CompileCELExpression(e, x.OptionalVariableDeclarations, x.age(text)).Error
	})
}

// declare compiles a variable, which later expressions may use.
func (x expressions) declare(name, text string, at *field.Path) field.ErrorList {
	compiler, ok := x.compiler.(*plugincel.CompositedCompiler)
	if !ok {
		return field.ErrorList{field.InternalError(at, errors.New("variable composition is not allowed"))}
	}
	compiled, err := x.budget.Declare(text)
	if err != nil {
		return field.ErrorList{field.Forbidden(at, "too complex, "+err.Error())}
	}
	return x.errors(text, compiled, at, func(text string) *apiservercel.Error {
		e := &expression{text: text, returns: variableTypes, name: name}
		return compiler.CompileAndStoreVariable(e, x.OptionalVariableDeclarations, x.age(text)).Error
	})
}

// errors returns the errors of an expression, and compiles it a second time if they can show it.
func (x expressions) errors(text, compiled string, at *field.Path, compile func(text string) *apiservercel.Error) field.ErrorList {
	err := compile(compiled)
	if err != nil && x.budget.Failed(text, compiled, err.Detail) {
		err = compile(text)
	}
	return CELErrors(err, text, at)
}

func (x expressions) age(text string) environment.Type {
	if x.stored[text] {
		return environment.StoredExpressions
	}
	return environment.NewExpressions
}

// expression is the input of the compiler.
type expression struct {
	text    string
	returns []*cel.Type
	name    string // the name of a variable, "" for other expressions
}

// GetExpression, ReturnTypes and GetName implement the compiler's interface of a named expression.
func (e *expression) GetExpression() string    { return e.text }
func (e *expression) ReturnTypes() []*cel.Type { return e.returns }
func (e *expression) GetName() string          { return e.name }

// CELErrors returns the error of an expression that did not compile, nil for nil.
func CELErrors(err *apiservercel.Error, text string, at *field.Path) field.ErrorList {
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

// plainCompiler compiles expressions without declared variables. It is shared, as creating one
// takes longer than using it.
var plainCompiler = sync.OnceValue(func() plugincel.Compiler {
	return plugincel.NewCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
})

// validateMatchConditions returns the errors of match conditions.
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
		all = append(all, rule.ValidateQualifiedName(at.Child("name"), c.Name)...)
		if names[c.Name] {
			all = append(all, field.Duplicate(at.Child("name"), c.Name))
		}
		names[c.Name] = true
	}
	return all
}
