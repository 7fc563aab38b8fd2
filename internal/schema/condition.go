package schema

import (
	"errors"
	"strings"

	"github.com/kapok-dev/kapok/internal/schema/expression"

	"github.com/google/cel-go/common/types/ref"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

// condition is a rule in x-kubernetes-validations.
type condition struct {
	rule, message, explanation string // explanation is the messageExpression
	fieldPath                  string
	reason                     apiextensionsv1.FieldValueErrorReason
	optionalOld                bool
}

func conditionsFor(rules apiextensionsv1.ValidationRules) []condition {
	if len(rules) == 0 {
		return nil
	}
	list := make([]condition, len(rules))
	for i := range rules {
		r := &rules[i]
		list[i] = condition{
			rule: r.Rule, message: r.Message, explanation: r.MessageExpression, fieldPath: r.FieldPath,
			optionalOld: r.OptionalOldSelf != nil && *r.OptionalOldSelf,
		}
		if r.Reason != nil {
			list[i].reason = *r.Reason
		}
	}
	return list
}

// name returns the name of the condition in errors.
func (c *condition) name() string {
	if c.message != "" {
		return strings.TrimSpace(c.message)
	}
	return strings.TrimSpace(c.rule)
}

// detail returns the message about a value that violates the condition, unless it has a
// messageExpression.
func (c *condition) detail() string {
	if c.message != "" {
		return strings.TrimSpace(c.message)
	}
	return "failed rule: " + c.name()
}

// broken returns the error about a value that violates the condition.
func (c *condition) broken(at *field.Path, value any, detail string) *field.Error {
	switch c.reason {
	case apiextensionsv1.FieldValueForbidden:
		return field.Forbidden(at, detail)
	case apiextensionsv1.FieldValueRequired:
		return field.Required(at, detail)
	case apiextensionsv1.FieldValueDuplicate:
		return field.Duplicate(at, value)
	}
	return field.Invalid(at, value, detail)
}

// compiledCondition is a condition that can be evaluated.
type compiledCondition struct {
	*condition
	test    *expression.Expression // nil if the rule is empty, or could not be compiled
	explain *expression.Expression // nil if there is none, or it could not be compiled
	at      string                 // the path of the invalid field, relative to the value
	err     error
}

func (c *condition) compile(scope *expression.Scope, n *node) compiledCondition {
	compiled := compiledCondition{condition: c}
	if strings.TrimSpace(c.rule) == "" {
		return compiled
	}
	if compiled.test, compiled.err = scope.Condition(c.rule, c.optionalOld); compiled.err != nil {
		return compiled
	}
	if c.explanation != "" {
		// An explanation that does not compile is ignored: validation of the
		// CustomResourceDefinition rejects it.
		explain, err := scope.Message(c.explanation, c.optionalOld)
		if err != nil {
			return compiled
		}
		compiled.explain = explain
	}
	if c.fieldPath != "" {
		if at, err := fieldAt(c.fieldPath, n); err == nil {
			compiled.at = at.String()
		}
	}
	return compiled
}

// usesOld reports whether the condition compares a value with the one it replaces.
func (c *compiledCondition) usesOld() bool { return c.test != nil && c.test.UsesOld() }

// errInexplicable reports that a messageExpression has no usable result; then the message is used.
var errInexplicable = errors.New("messageExpression has no result")

// explanationOf validates the result of a messageExpression.
func explanationOf(v ref.Val) (string, error) {
	text, ok := v.Value().(string)
	text = strings.TrimSpace(text)
	if !ok || text == "" || len(text) > celconfig.MaxEvaluatedMessageExpressionSizeBytes || strings.Contains(text, "\n") {
		return "", errInexplicable
	}
	return text, nil
}
