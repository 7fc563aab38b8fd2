package policy_test

import (
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/internal/authz"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// TestMetrics checks what is counted of validations and mutations: all mutations, and validations
// that fail.
func TestMetrics(t *testing.T) {
	s := newServer(t, authz.Basic{})
	s.mutating(spec{name: "m", spec: "mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: 'Object{}'}}]"})
	s.mutating(spec{name: "wrong", spec: "failurePolicy: Ignore\nmutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: 'Object{data: {\"a\": object.data.none}}'}}]"})
	s.validating(spec{name: "holds", spec: "validations: [{expression: 'true'}]"})
	s.validating(spec{name: "denies", spec: "validations: [{expression: 'true'}, {expression: 'false'}, {expression: 'false', message: never}]", binding: "validationActions: [Deny, Audit]"})
	s.validating(spec{name: "warns", spec: "validations: [{expression: 'object.data.none == 1'}]", binding: "validationActions: [Warn]"})
	s.validating(spec{name: "ignores", spec: "failurePolicy: Ignore\nvalidations: [{expression: 'object.data.none == 1'}]"})
	const ten = "[1,2,3,4,5,6,7,8,9,10]"
	expensive := "{expression: '" + ten + ".all(a, " + ten + ".all(b, " + ten + ".all(c, " + ten + ".all(d, " + ten + ".all(e, a + b + c + d + e > 0)))))'},"
	s.validating(spec{name: "spends", spec: "failurePolicy: Ignore\nvalidations: [" + strings.Repeat(expensive, 30) + "]"})
	s.validating(spec{name: "annotates", spec: "auditAnnotations: [{key: k, valueExpression: 'string(object.data.none)'}]"})
	if _, err := s.create(configMap("c", "a: b")); err == nil {
		t.Fatal("the config map was not rejected")
	}
	const mutating, validating = "apiserver_mutating_admission_policy_check_total", "apiserver_validating_admission_policy_check_total"
	want := `
# HELP apiserver_mutating_admission_policy_check_total Number of mutations of admission policies.
# TYPE apiserver_mutating_admission_policy_check_total counter
apiserver_mutating_admission_policy_check_total{error_type="invalid_error",policy="wrong",policy_binding="wrong"} 1
apiserver_mutating_admission_policy_check_total{error_type="no_error",policy="m",policy_binding="m"} 1
# HELP apiserver_validating_admission_policy_check_total Number of validations of admission policies that failed, by what became of the request.
# TYPE apiserver_validating_admission_policy_check_total counter
apiserver_validating_admission_policy_check_total{enforcement_action="allow",error_type="invalid_error",policy="ignores",policy_binding="ignores"} 1
apiserver_validating_admission_policy_check_total{enforcement_action="allow",error_type="out_of_budget",policy="spends",policy_binding="spends"} 1
apiserver_validating_admission_policy_check_total{enforcement_action="audit",error_type="invalid_error",policy="denies",policy_binding="denies"} 2
apiserver_validating_admission_policy_check_total{enforcement_action="deny",error_type="invalid_error",policy="annotates",policy_binding="annotates"} 1
apiserver_validating_admission_policy_check_total{enforcement_action="deny",error_type="invalid_error",policy="denies",policy_binding="denies"} 2
apiserver_validating_admission_policy_check_total{enforcement_action="warn",error_type="invalid_error",policy="warns",policy_binding="warns"} 1
`
	if err := testutil.CollectAndCompare(s.policies.Metrics(), strings.NewReader(want), mutating, validating); err != nil {
		t.Error(err)
	}
	for name, n := range map[string]int{
		"apiserver_mutating_admission_policy_check_duration_seconds": 2, "apiserver_validating_admission_policy_check_duration_seconds": 6,
	} {
		if got := testutil.CollectAndCount(s.policies.Metrics(), name); got != n {
			t.Errorf("%s has %d series, want %d", name, got, n)
		}
	}
}
