package policy_test

import (
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/internal/authz"
	"github.com/kapok-dev/kapok/internal/resource"

	"sigs.k8s.io/yaml"
)

// trees decodes manifests, each with a policy and its binding.
func (s *server) trees(manifests []string) (policies, bindings []resource.Tree) {
	s.Helper()
	for i := 0; i < len(manifests); i += 2 {
		var policy, binding resource.Tree
		if err := yaml.Unmarshal([]byte(manifests[i]), &policy); err != nil {
			s.Fatal(err)
		}
		if err := yaml.Unmarshal([]byte(manifests[i+1]), &binding); err != nil {
			s.Fatal(err)
		}
		policies, bindings = append(policies, policy), append(bindings, binding)
	}
	return policies, bindings
}

const everything = `[{apiGroups: ["*"], apiVersions: ["*"], resources: ["*"], operations: ["*"]}]`

// TestValidatingFiles checks that policies from files are enforced before those in the store, and
// for policies too; and that the next set replaces them.
func TestValidatingFiles(t *testing.T) {
	s := newServer(t, authz.Basic{})
	denies := func(name, message string) []string {
		return spec{name: name, rules: everything, spec: "validations: [{expression: \"object.metadata.name != 'bad'\", message: " + message + "}]"}.
			manifests("ValidatingAdmissionPolicy", "validationActions: [Deny]")
	}
	policies, bindings := s.trees(append(denies("y.static.k8s.io", "file"), denies("z.static.k8s.io", "second")...))
	if err := s.policies.UseValidating(policies, bindings[:1]); err != nil {
		t.Fatal(err)
	}
	check := func(what, manifest, want string) {
		t.Helper()
		_, err := s.create(manifest)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %s", what, err, want)
		}
	}
	configuration := "{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: bad}, " +
		"spec: {policyName: none, validationActions: [Deny]}}"
	const fromFile = "ValidatingAdmissionPolicy 'y.static.k8s.io' with binding 'y.static.k8s.io' denied request: file"
	check("file", configMap("bad", ""), fromFile)
	check("another object", configMap("good", ""), "")
	check("a binding", configuration, fromFile)
	s.mustCreate(denies("a", "store")...)
	check("file before store", configMap("bad", ""), fromFile)
	if err := s.policies.UseValidating(nil, nil); err != nil {
		t.Fatal(err)
	}
	check("store", configMap("bad", ""), "ValidatingAdmissionPolicy 'a' with binding 'a' denied request: store")
	check("a binding, store", configuration, "")
}

// TestMutatingFiles checks that mutating policies from files come first.
func TestMutatingFiles(t *testing.T) {
	s := newServer(t, authz.Basic{})
	sets := func(name, data string) spec {
		return spec{name: name, spec: "reinvocationPolicy: Never\nmutations: [{patchType: ApplyConfiguration, applyConfiguration: " +
			"{expression: 'Object{data: {\"last\": \"" + data + "\"}}'}}]"}
	}
	policies, bindings := s.trees(sets("z.static.k8s.io", "file").manifests("MutatingAdmissionPolicy", ""))
	if err := s.policies.UseMutating(policies, bindings); err != nil {
		t.Fatal(err)
	}
	check := func(name, want string) {
		t.Helper()
		if got := s.mustCreate(configMap(name, ""))["data"].(map[string]any)["last"]; got != want {
			t.Errorf("%s: got %v, want %s", name, got, want)
		}
	}
	check("file", "file")
	s.mutating(sets("a", "store"))
	check("both", "store")
}
