package policy_test

import (
	"context"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/internal/authn"
	"github.com/kapok-dev/kapok/internal/authz"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// asking allows the requests in its list, and records all.
type asking struct {
	allowed map[string]bool
	log     *[]string
}

func (z asking) Authorize(_ context.Context, a *authz.Attributes) (authz.Decision, string, error) {
	question := strings.Join([]string{a.Verb, a.APIGroup, a.APIVersion, a.Resource, a.Namespace, a.Name}, "|")
	*z.log = append(*z.log, question)
	if z.allowed[question] {
		return authz.Allow, "", nil
	}
	return authz.NoOpinion, "", nil
}

// TestReaders checks that the author of a policy must be allowed to read its parameters.
func TestReaders(t *testing.T) {
	policy := spec{
		spec:    "paramKind: {apiVersion: v1, kind: ConfigMap}\nvalidations: [{expression: 'true'}]",
		binding: "validationActions: [Deny]\nparamRef: {name: limits, namespace: default, parameterNotFoundAction: Deny}",
	}.manifests("ValidatingAdmissionPolicy", "")
	bySelector := strings.Replace(policy[1], "name: limits", "selector: {}", 1)
	unknown := strings.Replace(policy[0], "kind: ConfigMap", "kind: Nothing", 1)
	for _, tc := range []struct {
		name, first, manifest string
		question, refusal     string
	}{
		{"kind", "", policy[0], "get||v1|configmaps|*|*",
			`spec.paramKind: Forbidden: user &{ann  [a b] map[]} must have "get" permission on all objects of the referenced paramKind (kind=ConfigMap, apiVersion=v1)`},
		{"unknown kind", "", unknown, "get||v1|*|*|*",
			`spec.paramKind: Forbidden: user &{ann  [a b] map[]} must have "get" permission on all objects of the referenced paramKind (kind=Nothing, apiVersion=v1)`},
		{"object", policy[0], policy[1], "get||v1|configmaps|default|limits",
			`spec.paramRef: Forbidden: user &{ann  [a b] map[]} does not have "get" permission on the object referenced by paramRef`},
		{"selected", policy[0], bySelector, "list||v1|configmaps|default|",
			`spec.paramRef: Forbidden: user &{ann  [a b] map[]} does not have "list" permission on the object referenced by paramRef`},
		{"no policy", "", policy[1], "get|*|*|*|default|limits",
			`spec.paramRef: Forbidden: unable to get policy p to determine minimum required permissions and user &{ann  [a b] map[]} does not have "get" permission for all groups, versions and resources`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var log []string
			z := asking{map[string]bool{}, &log}
			s := newServer(t, z)
			if tc.first != "" {
				s.mustCreate(tc.first) // as the admin
			}
			if len(log) != 0 {
				t.Errorf("authorized for the admin: %q", log)
			}
			s.user = &authn.User{Name: "ann", Groups: []string{"a", "b"}}
			_, err := s.create(tc.manifest)
			if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), tc.refusal) {
				t.Errorf("got %v\nwant %s", err, tc.refusal)
			}
			if got := strings.Join(log, " "); got != tc.question {
				t.Errorf("authorized %s, want %s", got, tc.question)
			}
			z.allowed[tc.question] = true
			s.mustCreate(tc.manifest)
		})
	}
}
