package validation

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/internal/celwork"

	celgo "github.com/google/cel-go/cel"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

// reasons are the reasons of errors that a rule may choose.
var reasons = []string{
	string(apiextensions.FieldValueDuplicate), string(apiextensions.FieldValueForbidden), string(apiextensions.FieldValueInvalid), string(apiextensions.FieldValueRequired),
}

// ruleFields checks the fields of rules, without compiling expressions.
func (w *walk) ruleFields(s *apiextensions.JSONSchemaProps, at *field.Path) {
	var structural *structuralschema.Structural // of s, for the paths of all rules
	var notStructural error
	for i := range s.XValidations {
		r, at := &s.XValidations[i], at.Child("x-kubernetes-validations").Index(i)
		rule, message := strings.TrimSpace(r.Rule), strings.TrimSpace(r.Message)
		switch {
		case rule == "":
			w.add(field.Required(at.Child("rule"), "rule is not specified"))
		case r.Message != "" && message == "":
			w.add(field.Invalid(at.Child("message"), r.Message, "must be non-empty if specified"))
		case hasLines(message):
			w.add(field.Invalid(at.Child("message"), r.Message, "must not contain line breaks"))
		case hasLines(rule) && message == "":
			w.add(field.Required(at.Child("message"), "message must be specified if rule contains line breaks"))
		}
		if r.MessageExpression != "" && strings.TrimSpace(r.MessageExpression) == "" {
			w.add(field.Required(at.Child("messageExpression"), "messageExpression must be non-empty if specified"))
		}
		if r.Reason != nil && !slices.Contains(reasons, string(*r.Reason)) {
			w.add(field.NotSupported(at.Child("reason"), *r.Reason, reasons))
		}
		if r.FieldPath == "" {
			continue
		}
		if strings.TrimSpace(r.FieldPath) == "" {
			w.add(field.Invalid(at.Child("fieldPath"), r.FieldPath, "must be non-empty if specified"))
		}
		if hasLines(r.FieldPath) {
			w.add(field.Invalid(at.Child("fieldPath"), r.FieldPath, "must not contain line breaks"))
		}
		if structural == nil && notStructural == nil {
			structural, notStructural = structuralschema.NewStructural(s)
		}
		if notStructural == nil {
			if _, _, err := find(r.FieldPath, structural); err != nil {
				w.add(field.Invalid(at.Child("fieldPath"), r.FieldPath, "must be a valid path"))
			}
		}
	}
}

func hasLines(text string) bool { return strings.ContainsAny(text, "\r\n") }

// rules compiles the rules of a schema.
func (w *walk) rules(s *apiextensions.JSONSchemaProps, p place) {
	at := p.at.Child("x-kubernetes-validations")
	fail := func(err error) { w.ruleErrs = append(w.ruleErrs, field.InternalError(at, err)) }
	info, err := p.rules.types()
	if err != nil {
		fail(fmt.Errorf("internal error: failed to construct type information for x-kubernetes-validations rules: %w", err))
		return
	}
	if info == nil {
		fail(errors.New("internal error: failed to retrieve type information for x-kubernetes-validations"))
		return
	}
	refused := len(w.ruleErrs)
	for i := range s.XValidations {
		r := &s.XValidations[i]
		for _, e := range []struct {
			field, text string
			stored      map[string]bool
		}{{"rule", r.Rule, w.leniency.rules}, {"messageExpression", r.MessageExpression, w.leniency.messages}} {
			if _, err := celwork.Hide(e.text); err != nil && !e.stored[e.text] {
				w.ruleErrs = append(w.ruleErrs, field.Invalid(at.Index(i).Child(e.field), *r, err.Error()))
			}
		}
	}
	if len(w.ruleErrs) > refused {
		return
	}
	results, err := w.compile(info)
	if err != nil {
		fail(err)
		return
	}
	for i := range results {
		w.result(&results[i], &s.XValidations[i], p, at.Index(i))
	}
}

// result checks the cost of a compiled rule, and reports its errors.
func (w *walk) result(c *cel.CompilationResult, r *apiextensions.ValidationRule, p place, at *field.Path) {
	add := func(err *field.Error) { w.ruleErrs = append(w.ruleErrs, err) }
	cost := p.rules.cost(c)
	if !w.anyCost && cost > mostOfRule {
		add(field.Forbidden(at.Child("rule"), tooExpensive("estimated rule cost", cost, mostOfRule)))
	}
	w.cost.observe(at.Child("rule"), cost)
	if c.Error != nil {
		if c.Error.Type == apiservercel.ErrorTypeRequired {
			add(field.Required(at.Child("rule"), c.Error.Detail))
		} else {
			add(field.Invalid(at.Child("rule"), *r, c.Error.Detail))
		}
	}
	switch {
	case c.MessageExpressionError != nil:
		add(field.Invalid(at.Child("messageExpression"), *r, c.MessageExpressionError.Detail))
	case c.MessageExpression != nil:
		if !w.anyCost && c.MessageExpressionMaxCost > mostOfRule {
			add(field.Forbidden(at.Child("messageExpression"), tooExpensive("estimated messageExpression cost", c.MessageExpressionMaxCost, mostOfRule)))
		}
		w.cost.observe(at.Child("messageExpression"), c.MessageExpressionMaxCost)
	}
	switch {
	case c.UsesOldSelf && p.uncorrelated != nil:
		add(field.Invalid(at.Child("rule"), r.Rule, fmt.Sprintf("oldSelf cannot be used on the uncorrelatable portion of the schema within %v", p.uncorrelated)))
	case !c.UsesOldSelf && r.OptionalOldSelf != nil:
		add(field.Invalid(at.Child("optionalOldSelf"), *r.OptionalOldSelf, "may not be set if oldSelf is not used in rule"))
	}
}

// compile compiles the rules of a schema with types. Errors show the lines of expressions, which
// takes too long for some: such errors are without them.
func (w *walk) compile(info *typeInfo) ([]cel.CompilationResult, error) {
	env := environments{stored: w.leniency.rules, storedMessages: w.leniency.messages, shown: map[string]string{}}
	compiled := *info.schema
	compiled.XValidations = slices.Clone(compiled.XValidations)
	for i := range compiled.XValidations {
		r := &compiled.XValidations[i]
		r.Rule, r.MessageExpression = env.hide(r.Rule), env.hide(r.MessageExpression)
	}
	results, err := cel.Compile(&compiled, info.declared, celconfig.PerCallLimit, environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()), env)
	if err != nil {
		return nil, err
	}
	again := false
	show := func(expression *string, text string, failed *apiservercel.Error) {
		if failed != nil && *expression != text && w.shown.Failed(text, *expression, failed.Detail) {
			*expression, again = text, true
		}
	}
	for i := range results {
		r, original := &compiled.XValidations[i], &info.schema.XValidations[i]
		show(&r.Rule, original.Rule, results[i].Error)
		show(&r.MessageExpression, original.MessageExpression, results[i].MessageExpressionError)
	}
	if !again {
		return results, nil
	}
	return cel.Compile(&compiled, info.declared, celconfig.PerCallLimit, environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()), env)
}

// environments select the environment of each expression: those that are stored already may use
// what only newer servers have.
type environments struct {
	stored, storedMessages map[string]bool
	shown                  map[string]string // the expressions that are compiled in another form
}

// hide returns the form of an expression whose errors show no long lines.
func (e environments) hide(text string) string {
	hidden, err := celwork.Hide(text)
	if err != nil || hidden == text {
		return text
	}
	e.shown[hidden] = text
	return hidden
}

func (e environments) has(known map[string]bool, expression string) bool {
	if text, ok := e.shown[expression]; ok {
		expression = text
	}
	return known[expression]
}

// RuleEnv implements cel.EnvLoader.
func (e environments) RuleEnv(set *environment.EnvSet, expression string) *celgo.Env {
	return of(set, e.has(e.stored, expression))
}

// MessageExpressionEnv implements cel.EnvLoader.
func (e environments) MessageExpressionEnv(set *environment.EnvSet, expression string) *celgo.Env {
	return of(set, e.has(e.storedMessages, expression))
}

func of(set *environment.EnvSet, stored bool) *celgo.Env {
	if stored {
		return set.StoredExpressionsEnv()
	}
	return set.NewExpressionsEnv()
}
