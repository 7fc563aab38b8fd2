package policies

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/internal/celwork"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// validations are where expressions are, with the validation of an object that has n of them.
var validations = map[string]func(ctx context.Context, text string, n int) field.ErrorList{
	"a validation": func(ctx context.Context, text string, n int) field.ErrorList {
		p := policy()
		for range n {
			p.Spec.Validations = append(p.Spec.Validations, admissionv1.Validation{Expression: text})
		}
		return validateValidatingAdmissionPolicy(ctx, p, nil)
	},
	"a message": func(ctx context.Context, text string, n int) field.ErrorList {
		p := policy()
		for range n {
			p.Spec.Validations = append(p.Spec.Validations, admissionv1.Validation{Expression: "true", MessageExpression: "string(" + text + ")"})
		}
		return validateValidatingAdmissionPolicy(ctx, p, nil)
	},
	"a variable": func(ctx context.Context, text string, n int) field.ErrorList {
		p := policy()
		p.Spec.Validations = []admissionv1.Validation{{Expression: "true"}}
		for i := range n {
			p.Spec.Variables = append(p.Spec.Variables, admissionv1.Variable{Name: fmt.Sprint("v", i), Expression: text})
		}
		return validateValidatingAdmissionPolicy(ctx, p, nil)
	},
	"a mutation": func(ctx context.Context, text string, n int) field.ErrorList {
		fail, exact := admissionv1.Fail, admissionv1.Equivalent
		p := &admissionv1.MutatingAdmissionPolicy{Spec: admissionv1.MutatingAdmissionPolicySpec{
			FailurePolicy: &fail, ReinvocationPolicy: admissionv1.NeverReinvocationPolicy,
			MatchConstraints: &admissionv1.MatchResources{MatchPolicy: &exact, ResourceRules: rules()},
		}}
		for range n {
			p.Spec.Mutations = append(p.Spec.Mutations, admissionv1.Mutation{PatchType: admissionv1.PatchTypeJSONPatch,
				JSONPatch: &admissionv1.JSONPatch{Expression: "(" + text + ") ? [JSONPatch{}] : [JSONPatch{}]"}})
		}
		return validateMutatingAdmissionPolicy(ctx, p, nil)
	},
	"a match condition of a webhook": func(ctx context.Context, text string, n int) field.ErrorList {
		var hooks []admissionv1.MutatingWebhook
		for i := range n {
			hooks = append(hooks, admissionv1.MutatingWebhook{
				Name: fmt.Sprintf("h%d.example.com", i), ClientConfig: admissionv1.WebhookClientConfig{URL: ptr.To("https://a")},
				SideEffects: ptr.To(admissionv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
				FailurePolicy: ptr.To(admissionv1.Fail), MatchPolicy: ptr.To(admissionv1.Exact), TimeoutSeconds: ptr.To[int32](1),
				MatchConditions: []admissionv1.MatchCondition{{Name: "a", Expression: text}},
			})
		}
		return validateMutatingWebhookConfiguration(ctx, &admissionv1.MutatingWebhookConfiguration{Webhooks: hooks}, nil)
	},
}

// TestWorkOfExpressions checks that expressions which take too much work are rejected before they
// are compiled: the chain of 40 calls would not end.
func TestWorkOfExpressions(t *testing.T) {
	chain := func(n int) string { return "optional.of(true)" + strings.Repeat(".optMap(x, x)", n) + ".hasValue()" }
	large := strings.Repeat("1==1||", 800) + "true"
	if work := celwork.Estimate(large); work > celwork.Limit || work < celwork.Limit/2 {
		t.Fatalf("%d units of work", work)
	}
	for name, validate := range validations {
		if errs := validate(t.Context(), chain(3), 2); len(errs) > 0 {
			t.Errorf("%s with a short chain: %v", name, errs)
		}
		errs := validate(t.Context(), chain(40), 1)
		if len(errs) != 1 || errs[0].Type != field.ErrorTypeForbidden || !strings.Contains(errs[0].Detail, "too complex, compiling the expression takes more than") {
			t.Errorf("%s with a long chain: %v", name, errs)
		}
		most := celwork.ObjectLimit / celwork.Estimate(large)
		errs = validate(t.Context(), large, most+2)
		if len(errs) == 0 || len(errs) > 3 || errs[0].Type != field.ErrorTypeForbidden || !strings.Contains(errs[0].Detail, "too complex, compiling all expressions of the object takes more than") {
			t.Errorf("%s %d times: %v", name, most+2, errs)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if errs := validate(ctx, "true", 1); len(errs) == 0 || !strings.Contains(errs[0].Detail, context.Canceled.Error()) {
			t.Errorf("%s is compiled after the end of the context: %v", name, errs)
		}
	}
}

func rules() []admissionv1.NamedRuleWithOperations {
	return []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
		Operations: []admissionv1.OperationType{admissionv1.Create},
		Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
	}}}
}

func policy() *admissionv1.ValidatingAdmissionPolicy {
	fail, exact := admissionv1.Fail, admissionv1.Equivalent
	return &admissionv1.ValidatingAdmissionPolicy{Spec: admissionv1.ValidatingAdmissionPolicySpec{
		FailurePolicy: &fail, MatchConstraints: &admissionv1.MatchResources{MatchPolicy: &exact, ResourceRules: rules()},
	}}
}
