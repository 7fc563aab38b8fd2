package oracle

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/internal/authz/rbac"
	"github.com/kapok-dev/kapok/test/seeds"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/component-helpers/auth/rbac/validation"
	registry "k8s.io/kubernetes/pkg/registry/rbac/validation"
)

// TestRoles compares the missing permissions of random rules, and the messages about them, with
// those of Kubernetes.
func TestRoles(t *testing.T) {
	seed := seeds.Of(t)
	rnd := rand.New(rand.NewPCG(seed, 1))
	some := func(most int, from ...string) (list []string) {
		for range 1 + rnd.IntN(most) {
			list = append(list, from[rnd.IntN(len(from))])
		}
		return list
	}
	rules := func() (all []rbacv1.PolicyRule) {
		for range rnd.IntN(4) {
			r := rbacv1.PolicyRule{Verbs: some(3, "get", "list", "create", "*")}
			if rnd.IntN(4) == 0 {
				r.NonResourceURLs = some(2, "/a", "/a/*", "*", "/b*", "/a/b", "/b**")
			} else {
				r.APIGroups = some(2, "", "apps", "*")
				r.Resources = some(3, "pods", "pods/log", "*/log", "*/scale", "*", "deployments", "deployments/scale", "a/b/c", "*/b/c")
				if rnd.IntN(3) == 0 {
					r.ResourceNames = some(2, "one", "two", "")
				}
			}
			all = append(all, r)
		}
		return all
	}
	covered := 0
	for range 20000 {
		have, want := rules(), rules()
		ok, _ := validation.Covers(have, want)
		if got := rbac.Covers(have, want); got != ok {
			t.Fatalf("%v covers %v: %v, in Kubernetes %v", have, want, got, ok)
		}
		missing := ""
		ctx := request.WithUser(context.Background(), &user.DefaultInfo{Name: "jane"})
		if err := registry.ConfirmNoEscalation(ctx, resolver(have), want); err != nil {
			_, missing, _ = strings.Cut(err.Error(), "\n")
		}
		if got := rbac.Missing(have, want); got != missing {
			t.Fatalf("of %v, %v has not\n%s\nin Kubernetes\n%s", want, have, got, missing)
		}
		if ok {
			covered++
		}
	}
	if covered < 1000 {
		t.Errorf("only %d of 20000 were covered", covered)
	}
}

// A resolver returns the rules of all users.
func resolver(rules []rbacv1.PolicyRule) registry.AuthorizationRuleResolver {
	r, _ := registry.NewTestRuleResolver(nil, nil,
		[]*rbacv1.ClusterRole{{Rules: rules}},
		[]*rbacv1.ClusterRoleBinding{{RoleRef: rbacv1.RoleRef{Kind: "ClusterRole"}, Subjects: []rbacv1.Subject{{Kind: "User", Name: "jane"}}}})
	return r
}
