package expression

import (
	"fmt"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

// The variables of an expression.
const (
	selfName    = "self"
	oldSelfName = "oldSelf"
)

// Environments returns Kubernetes' environments of the current version. They are created once. All
// code of the process must get them here: the library blocks concurrent first users in a way that
// goroutines of different synctest bubbles must not share.
func Environments() *environment.EnvSet { return environments() }

var environments = sync.OnceValue(func() *environment.EnvSet {
	return environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
})

// shared returns the environment in which expressions are planned.
func shared() *cel.Env { return Environments().StoredExpressionsEnv() }

// A Scope is the environment of expressions for values of one type.
type Scope struct {
	self     *apiservercel.DeclType
	plain    *cel.Env // oldSelf has the type of self; created on first use
	optional *cel.Env // oldSelf is an optional value of that type; created on first use
}

// NewScope returns the scope of expressions for values of a type. The types of objects in it get
// names that expressions cannot refer to.
func NewScope(self *apiservercel.DeclType) *Scope {
	return &Scope{self: self.MaybeAssignTypeName("selfType")}
}

// Condition compiles a boolean expression. With optionalOld, oldSelf is an optional value, and the
// expression is also evaluated without an old value. The error has Kubernetes' message.
func (s *Scope) Condition(text string, optionalOld bool) (*Expression, error) {
	ast, err := s.compile(text, optionalOld, "compilation failed: ")
	if err != nil {
		return nil, err
	}
	if ast.OutputType() != cel.BoolType {
		return nil, invalid("cel expression must evaluate to a bool")
	}
	return expressionOf(ast, "program instantiation failed: ")
}

// Message compiles an expression that returns an error message.
func (s *Scope) Message(text string, optionalOld bool) (*Expression, error) {
	ast, err := s.compile(text, optionalOld, "messageExpression compilation failed: ")
	if err != nil {
		return nil, err
	}
	if ast.OutputType() != cel.StringType {
		return nil, invalid("messageExpression must evaluate to a string")
	}
	return expressionOf(ast, "messageExpression instantiation failed: ")
}

func (s *Scope) compile(text string, optionalOld bool, failure string) (*cel.Ast, error) {
	env, err := s.env(optionalOld)
	if err != nil {
		return nil, err
	}
	ast, issues := env.Compile(text)
	if issues != nil {
		return nil, invalid(failure + issues.String())
	}
	return ast, nil
}

// env extends the shared environment by the variables and their types.
func (s *Scope) env(optionalOld bool) (*cel.Env, error) {
	env, old := &s.plain, s.self.CelType()
	if optionalOld {
		env, old = &s.optional, types.NewOptionalType(old)
	}
	if *env != nil {
		return *env, nil
	}
	declared := apiservercel.NewDeclTypeProvider(s.self)
	declared.SetRecognizeKeywordAsFieldName(true)
	options, err := declared.EnvOptions(shared().CELTypeProvider())
	if err != nil {
		return nil, err
	}
	options = append(options, cel.Variable(selfName, s.self.CelType()), cel.Variable(oldSelfName, old))
	extended, err := shared().Extend(options...)
	if err != nil {
		return nil, fmt.Errorf("extend environment: %w", err)
	}
	*env = extended
	return extended, nil
}

// expressionOf returns the Expression of a compiled one.
func expressionOf(ast *cel.Ast, failure string) (*Expression, error) {
	planned, err := planFor(ast)
	if err != nil {
		return nil, invalid(failure + err.Error())
	}
	e := &Expression{runner: planned}
	for _, ref := range ast.NativeRep().ReferenceMap() {
		e.usesOld = e.usesOld || ref.Name == oldSelfName
	}
	return e, nil
}

func invalid(detail string) error {
	return &apiservercel.Error{Type: apiservercel.ErrorTypeInvalid, Detail: detail}
}
