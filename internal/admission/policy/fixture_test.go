package policy_test

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/internal/admission"
	"github.com/kapok-dev/kapok/internal/admission/policy"
	"github.com/kapok-dev/kapok/internal/authn"
	"github.com/kapok-dev/kapok/internal/authz"
	"github.com/kapok-dev/kapok/internal/journal/memory"
	"github.com/kapok-dev/kapok/internal/kinds"
	"github.com/kapok-dev/kapok/internal/kinds/users"
	"github.com/kapok-dev/kapok/internal/resource"
	"github.com/kapok-dev/kapok/internal/state"

	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A server is a store with the built-in kinds, the namespace default, and policies as its
// admission.
type server struct {
	testing.TB
	store       *resource.Store
	policies    *policy.Policies
	user        *authn.User
	warnings    []string
	annotations map[string]string
}

func newServer(t testing.TB, by authz.Authorizer, before ...admission.Plugin) *server {
	t.Helper()
	j := memory.New()
	st, err := state.Open(context.Background(), j, state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	known := &users.Users{Authorizer: by}
	s := &server{TB: t, store: resource.NewStore(st, resource.NewRegistry(kinds.Give(kinds.Definitions(), known)...)), user: authn.Admin()}
	s.policies = policy.New(s.store, by)
	chain := append(admission.Chain(before), s.policies.Mutating(), s.policies.Readers(), s.policies.Validating())
	s.store.SetGate(resource.Gate{PermitCreate: known.PermitCreate, Admission: chain})
	s.mustCreate("{apiVersion: v1, kind: Namespace, metadata: {name: default}}")
	return s
}

// request returns a request of the server's user for the kind of a manifest.
func (s *server) request(apiVersion, kind string) *resource.Request {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		s.Fatal(err)
	}
	d := s.store.Registry().Load().Kind(gv.WithKind(kind).GroupKind())
	if d == nil {
		s.Fatalf("no kind %s in %s", kind, apiVersion)
	}
	s.warnings, s.annotations = nil, map[string]string{}
	r := &resource.Request{
		Definition: d, Version: d.Version(gv), User: s.user, Manager: "test", FieldValidation: metav1.FieldValidationStrict,
		Warn:     func(w string) { s.warnings = append(s.warnings, w) },
		Annotate: func(key, value string) { s.annotations[key] = value },
	}
	if d.Namespaced {
		r.Namespace = "default"
	}
	return r
}

// create creates an object, given as YAML.
func (s *server) create(manifest string) (resource.Tree, error) {
	s.Helper()
	data, err := yaml.YAMLToJSON([]byte(manifest))
	if err != nil {
		s.Fatal(err)
	}
	var meta metav1.PartialObjectMetadata
	if err := yaml.Unmarshal([]byte(manifest), &meta); err != nil {
		s.Fatal(err)
	}
	r := s.request(meta.APIVersion, meta.Kind)
	r.Options = &metav1.CreateOptions{}
	result, err := s.store.Create(s.Context(), r, resource.Body{Data: data})
	if err != nil {
		return nil, err
	}
	return s.tree(r, result), nil
}

func (s *server) tree(r *resource.Request, result resource.Result) resource.Tree {
	if result.Object == nil {
		return result.Tree
	}
	obj, err := resource.TreeOf(r.Definition, r.Version, result.Object)
	if err != nil {
		s.Fatal(err)
	}
	return obj
}

func (s *server) mustCreate(manifests ...string) resource.Tree {
	s.Helper()
	var last resource.Tree
	for _, m := range manifests {
		var err error
		if last, err = s.create(m); err != nil {
			s.Fatalf("%v\n%s", err, m)
		}
	}
	return last
}

// patch changes an object of the namespace default by a merge patch in YAML.
func (s *server) patch(apiVersion, kind, name, patch string) (resource.Tree, error) {
	s.Helper()
	r := s.request(apiVersion, kind)
	r.Name = name
	data, err := yaml.YAMLToJSON([]byte(patch))
	if err != nil {
		s.Fatal(err)
	}
	result, err := s.store.Patch(s.Context(), r, resource.Patch{Type: types.MergePatchType, Data: data})
	if err != nil {
		return nil, err
	}
	return s.tree(r, result), nil
}

func (s *server) delete(apiVersion, kind, name string) error {
	r := s.request(apiVersion, kind)
	r.Name = name
	_, err := s.store.Delete(s.Context(), r, nil)
	return err
}

// A spec is a policy and its binding, for config maps by default.
type spec struct {
	name    string // of both; default "p"
	rules   string // of matchConstraints
	spec    string // the rest of the policy's spec
	binding string // the rest of the binding's spec; default: Deny
}

func (p spec) manifests(kind, action string) []string {
	name := cmp.Or(p.name, "p")
	rules := cmp.Or(p.rules, `[{apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: ["*"]}]`)
	policy := fmt.Sprintf("apiVersion: admissionregistration.k8s.io/v1\nkind: %s\nmetadata: {name: %s}\nspec:\n  matchConstraints: {resourceRules: %s}\n%s",
		kind, name, rules, indent(p.spec))
	binding := fmt.Sprintf("apiVersion: admissionregistration.k8s.io/v1\nkind: %sBinding\nmetadata: {name: %s}\nspec:\n  policyName: %s\n%s",
		kind, name, name, indent(cmp.Or(p.binding, action)))
	return []string{policy, binding}
}

func indent(text string) (all string) {
	for line := range strings.Lines(strings.TrimSpace(strings.ReplaceAll(text, "\t", "  "))) {
		all += "  " + line
	}
	return all + "\n"
}

func (s *server) validating(p spec) *server {
	s.Helper()
	s.mustCreate(p.manifests("ValidatingAdmissionPolicy", "validationActions: [Deny]")...)
	return s
}

func (s *server) mutating(p spec) *server {
	s.Helper()
	if !strings.Contains(p.spec, "reinvocationPolicy") {
		p.spec += "\nreinvocationPolicy: Never"
	}
	s.mustCreate(p.manifests("MutatingAdmissionPolicy", "")...)
	return s
}

func configMap(name, data string) string {
	return fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: %s}, data: {%s}}", name, data)
}

func bodyOf(data []byte) resource.Body { return resource.Body{Data: data} }
