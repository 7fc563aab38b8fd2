package policy_test

import (
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/internal/authz"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// TestTakesEffectAtOnce checks that a policy is in effect from the first request after its write,
// as long as it is bound.
func TestTakesEffectAtOnce(t *testing.T) {
	s := newServer(t, authz.Basic{})
	big := configMap("big", "size: big")
	s.mustCreate(configMap("before", "size: big"))
	s.validating(spec{spec: `
validations:
- expression: object.data.size == 'small'`})
	_, err := s.create(big)
	const want = "ValidatingAdmissionPolicy 'p' with binding 'p' denied request: failed expression: object.data.size == 'small'"
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), want) {
		t.Fatalf("got %v, want %s", err, want)
	}
	const group = "admissionregistration.k8s.io/v1"
	if _, err := s.patch(group, "ValidatingAdmissionPolicy", "p", "{spec: {validations: [{expression: 'object.data.size == \"big\"'}]}}"); err != nil {
		t.Fatal(err)
	}
	s.mustCreate(big)
	if _, err := s.create(configMap("small", "size: small")); !apierrors.IsInvalid(err) {
		t.Fatalf("got %v, want the message of the changed policy", err)
	}
	if _, err := s.patch(group, "ValidatingAdmissionPolicyBinding", "p", "{spec: {validationActions: [Warn]}}"); err != nil {
		t.Fatal(err)
	}
	s.mustCreate(configMap("small", "size: small"))
	if len(s.warnings) != 1 {
		t.Fatalf("warnings %q", s.warnings)
	}
	if err := s.delete(group, "ValidatingAdmissionPolicyBinding", "p"); err != nil {
		t.Fatal(err)
	}
	s.mustCreate(configMap("other", "size: small"))
	if len(s.warnings) != 0 {
		t.Fatalf("warnings %q", s.warnings)
	}
}

func BenchmarkCreate(b *testing.B) {
	for _, bc := range []struct {
		name   string
		policy *spec
	}{
		{"none", nil},
		{"other", &spec{rules: `[{apiGroups: [apps], apiVersions: [v1], resources: [deployments], operations: ["*"]}]`, spec: "validations: [{expression: 'true'}]"}},
		{"simple", &spec{spec: "validations: [{expression: \"object.data.size == 'small'\"}]"}},
		{"variables", &spec{spec: `
variables: [{name: size, expression: object.data.size}]
matchConditions: [{name: a, expression: "request.operation == 'CREATE'"}]
validations: [{expression: "variables.size == 'small' && namespaceObject.metadata.name == 'default'", messageExpression: "'a' + variables.size"}]`}},
	} {
		b.Run(bc.name, func(b *testing.B) {
			s := newServer(b, authz.Basic{})
			if bc.policy != nil {
				s.validating(*bc.policy)
			}
			r := s.request("v1", "ConfigMap")
			r.DryRun = true
			body := []byte(`{"metadata":{"name":"x"},"data":{"size":"small"}}`)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.store.Create(b.Context(), r, bodyOf(body)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
