package policy_test

import (
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/kapok-dev/kapok/internal/authz"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// statusOf returns the status of a policy.
func (s *server) statusOf(name string) admissionv1.ValidatingAdmissionPolicyStatus {
	s.Helper()
	gr := schema.GroupResource{Group: admissionv1.GroupName, Resource: "validatingadmissionpolicies"}
	o, _ := s.store.State().Get(object.Key{Resource: gr, Name: name})
	d := s.store.Registry().Load().Resource(gr)
	obj, err := resource.TreeOf(d, d.Storage, o)
	if err != nil {
		s.Fatal(err)
	}
	var p admissionv1.ValidatingAdmissionPolicy
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj, &p); err != nil {
		s.Fatal(err)
	}
	return p.Status
}

// TestTypes checks that type errors of expressions are in the status, for existing policies and for
// new ones.
func TestTypes(t *testing.T) {
	const deployments = `[{apiGroups: [apps], apiVersions: [v1], resources: [deployments, replicasets, deployments/scale], operations: ["*"]}]`
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, authz.Basic{})
		s.validating(spec{name: "before", rules: deployments, spec: `
variables: [{name: count, expression: object.spec.replicas}]
validations:
- {expression: "variables.count > 1 && object.spec.template.spec.containers.all(c, c.image != '')", messageExpression: "'a'"}`})
		end := s.policies.CheckTypes(slog.New(slog.DiscardHandler))
		defer end()
		synctest.Wait()
		if got := s.statusOf("before"); got.ObservedGeneration != 1 || got.TypeChecking == nil || len(got.TypeChecking.ExpressionWarnings) != 0 {
			t.Errorf("status %+v", got)
		}
		s.validating(spec{name: "wrong", rules: deployments, spec: `
validations:
- expression: object.spec.strategy.type == 'Recreate'
- expression: "true"
  messageExpression: string(object.spec.size)`})
		synctest.Wait()
		const replicaSet = `apps/v1, Kind=ReplicaSet: ERROR: <input>:1:12: undefined field 'strategy'
 | object.spec.strategy.type == 'Recreate'
 | ...........^
`
		const sizes = `apps/v1, Kind=Deployment: ERROR: <input>:1:19: undefined field 'size'
 | string(object.spec.size)
 | ..................^

apps/v1, Kind=ReplicaSet: ERROR: <input>:1:19: undefined field 'size'
 | string(object.spec.size)
 | ..................^
`
		want := []admissionv1.ExpressionWarning{
			{FieldRef: "spec.validations[0].expression", Warning: replicaSet},
			{FieldRef: "spec.validations[1].messageExpression", Warning: sizes},
		}
		got := s.statusOf("wrong")
		if got.TypeChecking == nil {
			t.Fatal("not checked")
		}
		if diff := cmp.Diff(want, got.TypeChecking.ExpressionWarnings); diff != "" {
			t.Error(diff)
		}
		if _, err := s.patch("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", "wrong", "{spec: {validations: [{expression: 'true'}]}}"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := s.statusOf("wrong"); got.ObservedGeneration != 2 || got.TypeChecking != nil && len(got.TypeChecking.ExpressionWarnings) != 0 {
			t.Errorf("after its change: %+v", got)
		}
	})
}
