package policies

import (
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// TestExpressionsThatCopy checks that expressions whose macros add too much are rejected before
// they are compiled: the chain of 40 calls would not end.
func TestExpressionsThatCopy(t *testing.T) {
	chain := func(n int) string { return "optional.of(true)" + strings.Repeat(".optMap(x, x)", n) + ".hasValue()" }
	validate := map[string]func(text string) field.ErrorList{
		"a validation": func(text string) field.ErrorList {
			return validateValidatingAdmissionPolicy(policy(admissionv1.Validation{Expression: text}), nil)
		},
		"a message": func(text string) field.ErrorList {
			return validateValidatingAdmissionPolicy(policy(admissionv1.Validation{Expression: "true", MessageExpression: "string(" + text + ")"}), nil)
		},
		"a variable": func(text string) field.ErrorList {
			p := policy(admissionv1.Validation{Expression: "true"})
			p.Spec.Variables = []admissionv1.Variable{{Name: "v", Expression: text}}
			return validateValidatingAdmissionPolicy(p, nil)
		},
		"a match condition": func(text string) field.ErrorList {
			return validateMatchConditions([]admissionv1.MatchCondition{{Name: "a", Expression: text}}, expressions{}, field.NewPath("matchConditions"))
		},
	}
	for name, check := range validate {
		if errs := check(chain(3)); len(errs) > 0 {
			t.Errorf("%s with a short chain: %v", name, errs)
		}
		errs := check(chain(40))
		if len(errs) != 1 || errs[0].Type != field.ErrorTypeForbidden || !strings.Contains(errs[0].Detail, "add more than 1000 nodes to the expression") {
			t.Errorf("%s with a long chain: %v", name, errs)
		}
	}
}

func policy(v admissionv1.Validation) *admissionv1.ValidatingAdmissionPolicy {
	fail, exact := admissionv1.Fail, admissionv1.Equivalent
	return &admissionv1.ValidatingAdmissionPolicy{Spec: admissionv1.ValidatingAdmissionPolicySpec{
		FailurePolicy: &fail, Validations: []admissionv1.Validation{v},
		MatchConstraints: &admissionv1.MatchResources{
			MatchPolicy: &exact,
			ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
				Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
			}}},
		},
	}}
}
