package policy_test

import (
	"fmt"
	"log/slog"
	"strings"
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

// TestTypesAreBounded checks that a policy with many type errors gets a status that can be stored,
// which names the kinds that were not checked.
func TestTypesAreBounded(t *testing.T) {
	const rules = `[{apiGroups: [apps], apiVersions: [v1], resources: [deployments, replicasets, statefulsets, daemonsets], operations: ["*"]}]`
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, authz.Basic{})
		end := s.policies.CheckTypes(slog.New(slog.DiscardHandler))
		defer end()
		var validations strings.Builder
		for i := range 250 {
			fmt.Fprintf(&validations, "- {expression: object.spec.absent%d == 1}\n", i)
		}
		s.validating(spec{name: "wrong", rules: rules, spec: "validations:\n" + validations.String()})
		synctest.Wait()
		status := s.statusOf("wrong")
		if status.ObservedGeneration != 1 || status.TypeChecking == nil {
			t.Fatalf("status %+v", status)
		}
		warnings := status.TypeChecking.ExpressionWarnings
		if len(warnings) != 251 {
			t.Fatalf("%d warnings", len(warnings))
		}
		if first := warnings[0].Warning; !strings.Contains(first, "Kind=DaemonSet") || strings.Contains(first, "Kind=StatefulSet") {
			t.Errorf("the first warning is %s", first)
		}
		want := admissionv1.ExpressionWarning{
			FieldRef: "spec.matchConstraints",
			Warning:  "types are not checked for apps/v1, Kind=ReplicaSet and the kinds after it: the policy has too many expressions, kinds or type errors",
		}
		if diff := cmp.Diff(want, warnings[250]); diff != "" {
			t.Error(diff)
		}
	})
}
