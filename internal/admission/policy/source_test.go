package policy_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/kapok-dev/kapok/internal/admission/policy"
	"github.com/kapok-dev/kapok/test/seeds"
)

const registration = "admissionregistration.k8s.io/v1"

func numbered(i int) spec {
	return spec{name: fmt.Sprint("p", i), spec: "validations: [{expression: 'true'}]"}
}

// TestChangeCostsWhatItChanges checks that only changed policies and bindings are read, and only
// policies with a changed spec compiled, however many there are.
func TestChangeCostsWhatItChanges(t *testing.T) {
	for _, n := range []int{10, 100} {
		s := newServer(t, nil)
		for i := range n {
			s.validating(numbered(i))
		}
		check := func(what string, read, compiled int) {
			t.Helper()
			if r, c := s.policies.Work(); r != read || c != compiled {
				t.Errorf("of %d: %s: %d objects read, %d policies compiled, want %d and %d", n, what, r, c, read, compiled)
			}
		}
		change := func(kind, patch string) {
			t.Helper()
			if _, err := s.patch(registration, kind, "p1", patch); err != nil {
				t.Fatal(err)
			}
		}
		s.policies.Work()
		change("ValidatingAdmissionPolicy", "metadata: {annotations: {a: b}}")
		check("a policy with another annotation", 1, 0)
		change("ValidatingAdmissionPolicy", "spec: {failurePolicy: Ignore}")
		check("a policy with another spec", 1, 1)
		change("ValidatingAdmissionPolicyBinding", "spec: {validationActions: [Warn]}")
		check("a binding", 1, 0)
		if err := s.delete(registration, "ValidatingAdmissionPolicyBinding", "p1"); err != nil {
			t.Fatal(err)
		}
		check("a binding that is gone", 0, 0)
	}
}

// TestRandomPolicies compares the policies in effect after random changes with those of a source
// built from scratch.
func TestRandomPolicies(t *testing.T) {
	seed := seeds.Of(t)
	r := rand.New(rand.NewPCG(seed, 1))
	s := newServer(t, nil)
	for step := range 300 {
		for range r.IntN(3) {
			name := fmt.Sprint("p", r.IntN(4))
			binding := fmt.Sprint("b", r.IntN(6))
			switch r.IntN(6) {
			case 0: // rejected if it does not exist, or exists already
				_ = s.delete(registration, "ValidatingAdmissionPolicy", name)
			case 1:
				_ = s.delete(registration, "ValidatingAdmissionPolicyBinding", binding)
			case 2, 3:
				p := spec{name: name, spec: "validations: [{expression: 'true'}]"}
				_, _ = s.create(p.manifests("ValidatingAdmissionPolicy", "validationActions: [Deny]")[0])
				_, _ = s.patch(registration, "ValidatingAdmissionPolicy", name, "spec: {failurePolicy: "+[]string{"Fail", "Ignore"}[r.IntN(2)]+"}")
			default:
				_, _ = s.create(fmt.Sprintf("{apiVersion: %s, kind: ValidatingAdmissionPolicyBinding, metadata: {name: %s}, spec: {policyName: %s, validationActions: [Deny]}}",
					registration, binding, name))
				_, _ = s.patch(registration, "ValidatingAdmissionPolicyBinding", binding, "spec: {policyName: "+name+"}")
			}
		}
		if got, want := s.policies.Dump(), policy.New(s.store, nil).Dump(); got != want {
			t.Fatalf("step %d: got\n%s\nand from scratch\n%s", step, got, want)
		}
	}
}

// BenchmarkAfterChange changes one policy, and creates a config map, which matches that policy
// only.
func BenchmarkAfterChange(b *testing.B) {
	for _, n := range []int{10, 100, 1000, 10000} {
		b.Run(fmt.Sprint("policies=", n), func(b *testing.B) {
			s := newServer(b, nil)
			s.validating(numbered(0))
			for i := range n {
				p := numbered(1 + i)
				p.rules = fmt.Sprintf(`[{apiGroups: ["g%d"], apiVersions: [v1], resources: [configmaps], operations: ["*"]}]`, i)
				s.validating(p)
			}
			s.mustCreate(configMap("c", "a: b"))
			i := 0
			for b.Loop() {
				b.StopTimer()
				if _, err := s.patch(registration, "ValidatingAdmissionPolicy", "p0", fmt.Sprintf("metadata: {annotations: {a: '%d'}}", i)); err != nil {
					b.Fatal(err)
				}
				i++
				b.StartTimer()
				if _, err := s.patch("v1", "ConfigMap", "c", fmt.Sprintf("data: {a: '%d'}", i)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
