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

// Environments returns Kubernetes' environments of the current version. They are made once. All of the process must get them
// here: the library lets whoever comes second wait in a way that goroutines of different test bubbles must not share.
func Environments() *environment.EnvSet { return environments() }

var environments = sync.OnceValue(func() *environment.EnvSet {
	return environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
})

// shared is the environment in which expressions are planned.
func shared() *cel.Env { return Environments().StoredExpressionsEnv() }

// A Scope is what expressions about values of one type see.
type Scope struct {
	self     *apiservercel.DeclType
	plain    *cel.Env // oldSelf is of the type of self; made when first needed
	optional *cel.Env // oldSelf is an optional value of that type; likewise
}

// NewScope returns the scope of expressions about values of a type. Objects in it get names that expressions cannot know.
func NewScope(self *apiservercel.DeclType) *Scope {
	return &Scope{self: self.MaybeAssignTypeName("selfType")}
}

// Condition compiles an expression that is true or false. With optionalOld it is asked also where there is no old value,
// and oldSelf is an optional value. The error is what Kubernetes says about the expression.
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

// Message compiles an expression that says what is wrong.
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

// expressionOf makes an expression of what has been compiled.
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
