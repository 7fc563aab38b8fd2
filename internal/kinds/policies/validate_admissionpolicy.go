package policies

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/internal/celwork"
	"github.com/kapok-dev/kapok/internal/kinds/rule"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

func validateValidatingAdmissionPolicy(ctx context.Context, p, old *admissionv1.ValidatingAdmissionPolicy) field.ErrorList {
	all := validateNotStatic(p.Name, old == nil)
	spec, at := &p.Spec, field.NewPath("spec")
	c := policyCompiler(ctx, spec.ParamKind, len(spec.Variables) > 0)
	all = append(all, validatePolicyHead(spec.FailurePolicy, spec.ParamKind, spec.MatchConstraints, at)...)
	before := expressionsOf(old)
	if old == nil || !equality.Semantic.DeepEqual(spec.ParamKind, old.Spec.ParamKind) ||
		!equality.Semantic.DeepEqual(spec.MatchConditions, old.Spec.MatchConditions) {
		all = append(all, validateMatchConditions(spec.MatchConditions, c.knowing(before.conditions), at.Child("matchConditions"))...)
	}
	all = append(all, validateVariables(spec.Variables, c.knowing(before.validations), at.Child("variables"))...)
	if len(spec.Validations)+len(spec.AuditAnnotations) == 0 {
		const detail = "validations or auditAnnotations must contain at least one item"
		return append(all, field.Required(at.Child("validations"), detail), field.Required(at.Child("auditAnnotations"), detail))
	}
	for i := range spec.Validations {
		all = append(all, validatePolicyValidation(&spec.Validations[i], c, before, at.Child("validations").Index(i))...)
	}
	return append(all, validateAuditAnnotations(p.Name, spec.AuditAnnotations, c.knowing(before.annotations), at.Child("auditAnnotations"))...)
}

// policyExpressions returns the expressions of the old policy.
type policyExpressions struct{ conditions, validations, messages, annotations map[string]bool }

func expressionsOf(p *admissionv1.ValidatingAdmissionPolicy) policyExpressions {
	k := policyExpressions{map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}}
	if p == nil {
		return k
	}
	for _, c := range p.Spec.MatchConditions {
		k.conditions[c.Expression] = true
	}
	for _, v := range p.Spec.Validations {
		k.validations[v.Expression] = true
		k.messages[v.MessageExpression] = true
	}
	for _, a := range p.Spec.AuditAnnotations {
		k.annotations[a.ValueExpression] = true
	}
	return k
}

func (x expressions) knowing(stored map[string]bool) expressions {
	x.stored = stored
	return x
}

// policyCompiler compiles the expressions of one policy, whose variables are declared as they are
// validated.
func policyCompiler(ctx context.Context, params *admissionv1.ParamKind, variables bool) expressions {
	x := expressions{
		budget:                       celwork.NewBudget(ctx),
		OptionalVariableDeclarations: plugincel.OptionalVariableDeclarations{HasParams: params != nil, HasAuthorizer: true},
	}
	if variables {
		if c, err := plugincel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())); err == nil {
			x.compiler = c
		}
	}
	return x
}

// validatePolicyHead returns the errors of the fields that validating and mutating policies share.
func validatePolicyHead(failure *admissionv1.FailurePolicyType, params *admissionv1.ParamKind, match *admissionv1.MatchResources, at *field.Path) field.ErrorList {
	all := rule.Supported(at.Child("failurePolicy"), *failure, admissionv1.Fail, admissionv1.Ignore)
	if params != nil {
		all = append(all, validateParamKind(params, at.Child("paramKind"))...)
	}
	if match == nil {
		return append(all, field.Required(at.Child("matchConstraints"), ""))
	}
	all = append(all, validateMatchResources(match, at.Child("matchConstraints"))...)
	if len(match.ResourceRules) == 0 {
		all = append(all, field.Required(at.Child("matchConstraints", "resourceRules"), ""))
	}
	return all
}

func validateParamKind(kind *admissionv1.ParamKind, at *field.Path) (all field.ErrorList) {
	group, version, grouped := strings.Cut(kind.APIVersion, "/")
	if !grouped {
		group, version = "", kind.APIVersion
	}
	path := at.Child("apiVersion")
	switch {
	case kind.APIVersion == "":
		all = append(all, field.Required(path, ""))
	case strings.Count(kind.APIVersion, "/") > 1:
		all = append(all, field.Invalid(path, kind.APIVersion, "unexpected GroupVersion string: "+kind.APIVersion))
	default:
		if problems := validation.IsDNS1123Subdomain(group); group != "" && len(problems) > 0 {
			all = append(all, field.Invalid(path, group, strings.Join(problems, ",")))
		}
		if version == "" {
			all = append(all, field.Invalid(path, kind.APIVersion, "version must be specified"))
		} else if problems := validation.IsDNS1035Label(version); len(problems) > 0 {
			all = append(all, field.Invalid(path, version, strings.Join(problems, ",")))
		}
	}
	if kind.Kind == "" {
		all = append(all, field.Required(at.Child("kind"), ""))
	} else if problems := validation.IsDNS1035Label(strings.ToLower(kind.Kind)); len(problems) > 0 {
		all = append(all, field.Invalid(at.Child("kind"), kind.Kind, "may have mixed case, but should otherwise match: "+strings.Join(problems, ",")))
	}
	return all
}

// celIdentifier is the pattern of CEL's identifiers; reservedIdentifiers are not valid.
var celIdentifier = rule.Pattern(`^[_a-zA-Z][_a-zA-Z0-9]*$`)

var reservedIdentifiers = []string{
	"true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop",
	"package", "namespace", "return", "var", "void", "while",
}

func validateVariables(variables []admissionv1.Variable, x expressions, at *field.Path) (all field.ErrorList) {
	for i, v := range variables {
		at := at.Index(i)
		if strings.TrimSpace(v.Name) == "" {
			all = append(all, field.Required(at.Child("name"), "name is not specified"))
		} else if !celIdentifier().MatchString(v.Name) || slices.Contains(reservedIdentifiers, v.Name) {
			all = append(all, field.Invalid(at.Child("name"), v.Name, "must be a valid CEL identifier"))
		}
		if strings.TrimSpace(v.Expression) == "" {
			all = append(all, field.Required(at.Child("expression"), "expression is not specified"))
		} else {
			all = append(all, x.declare(v.Name, v.Expression, at.Child("expression"))...)
		}
	}
	return all
}

func validatePolicyValidation(v *admissionv1.Validation, x expressions, k policyExpressions, at *field.Path) (all field.ErrorList) {
	if strings.TrimSpace(v.Expression) == "" {
		all = append(all, field.Required(at.Child("expression"), "expression is not specified"))
	} else {
		all = append(all, x.knowing(k.validations).compile(v.Expression, conditionTypes, at.Child("expression"))...)
	}
	if text := v.MessageExpression; text != "" {
		if strings.TrimSpace(text) == "" {
			all = append(all, field.Invalid(at.Child("messageExpression"), text, "must be non-empty if specified"))
		} else {
			x := x.knowing(k.messages)
			x.HasAuthorizer = false
			all = append(all, x.compile(text, messageTypes, at.Child("messageExpression"))...)
		}
	}
	if message := strings.TrimSpace(v.Message); v.Message != "" && message == "" {
		all = append(all, field.Invalid(at.Child("message"), v.Message, "must be non-empty if specified"))
	} else if strings.ContainsAny(message, "\n\r") {
		all = append(all, field.Invalid(at.Child("message"), v.Message, "must not contain line breaks"))
	}
	if v.Reason != nil {
		all = append(all, rule.Supported(at.Child("reason"), *v.Reason, metav1.StatusReasonForbidden, metav1.StatusReasonInvalid, metav1.StatusReasonRequestEntityTooLarge)...)
	}
	return all
}

func validateAuditAnnotations(policy string, annotations []admissionv1.AuditAnnotation, x expressions, at *field.Path) (all field.ErrorList) {
	const most, longest = 20, 5 * 1024
	if len(annotations) > most {
		all = append(all, field.Invalid(at, rule.AsInternal(annotations), fmt.Sprintf("must not have more than %d auditAnnotations", most)))
	}
	keys := map[string]bool{}
	for i, a := range annotations {
		at := at.Index(i)
		all = append(all, rule.ValidateQualifiedName(at.Child("key"), policy+"/"+a.Key)...)
		switch text := strings.TrimSpace(a.ValueExpression); {
		case text == "":
			all = append(all, field.Required(at.Child("valueExpression"), "valueExpression is not specified"))
		case len(text) > longest:
			all = append(all, field.Required(at.Child("valueExpression"), fmt.Sprintf("must not exceed %d bytes in length", longest)))
		default:
			all = append(all, x.compile(text, annotationTypes, at.Child("valueExpression"))...)
		}
		if keys[a.Key] {
			all = append(all, field.Duplicate(at.Child("key"), a.Key))
		}
		keys[a.Key] = true
	}
	return all
}
