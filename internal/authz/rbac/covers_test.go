package rbac

import (
	"slices"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/internal/authz"

	rbacv1 "k8s.io/api/rbac/v1"
)

// universe returns all rules that can be made of a few words.
func universe() (rules []rbacv1.PolicyRule) {
	for _, verbs := range [][]string{{"get"}, {"list"}, {"*"}, {"get", "list"}} {
		for _, groups := range [][]string{{""}, {"*"}, {"", "apps"}} {
			for _, resources := range [][]string{{"pods"}, {"pods/log"}, {"*/log"}, {"*"}, {"pods", "nodes/log"}} {
				for _, names := range [][]string{nil, {"a"}, {"a", "b"}} {
					rules = append(rules, rbacv1.PolicyRule{Verbs: verbs, APIGroups: groups, Resources: resources, ResourceNames: names})
				}
			}
		}
		for _, urls := range [][]string{{"/a"}, {"/a/*"}, {"*"}, {"/a*"}, {"/a", "/b/c"}, {"/kapok/v1/a"}, {"/kapok/*"}} {
			rules = append(rules, rbacv1.PolicyRule{Verbs: verbs, NonResourceURLs: urls})
		}
	}
	return rules
}

// requests returns all requests that can be made of those words and of some others.
func requests() (all []*authz.Attributes) {
	for _, verb := range []string{"get", "list", "delete"} {
		for _, group := range []string{"", "apps", "batch"} {
			for _, resource := range [][2]string{{"pods", ""}, {"pods", "log"}, {"nodes", ""}, {"nodes", "log"}, {"pods", "exec"}} {
				for _, name := range []string{"", "a", "b", "c"} {
					all = append(all, &authz.Attributes{
						Verb: verb, ResourceRequest: true, APIGroup: group, Resource: resource[0], Subresource: resource[1], Name: name,
					})
				}
			}
		}
		for _, path := range []string{"/a", "/a/", "/a/b", "/ab", "/b/c", "/c", "/kapok/v1/a", "/kapok/v1/b"} {
			all = append(all, &authz.Attributes{Verb: verb, Path: path})
		}
	}
	return all
}

// TestCovers checks all pairs of rules. A rule that covers another one allows all requests that the
// other allows; if the other has no star, the reverse also holds.
func TestCovers(t *testing.T) {
	rules, asked := universe(), requests()
	allowed := make([][]bool, len(rules))
	for i := range rules {
		var of table
		of.add(&rules[i])
		for _, a := range asked {
			q := newQuestion(a)
			allowed[i] = append(allowed[i], of.allows(&q))
		}
	}
	covered := 0
	for i, have := range rules {
		for j, want := range rules {
			implied := true
			for k := range asked {
				implied = implied && (allowed[i][k] || !allowed[j][k])
			}
			got := Covers([]rbacv1.PolicyRule{have}, []rbacv1.PolicyRule{want})
			stars := slices.ContainsFunc(slices.Concat(want.Verbs, want.APIGroups, want.Resources, want.NonResourceURLs), func(s string) bool {
				return strings.Contains(s, "*")
			})
			if got && !implied || implied && !got && !stars {
				t.Errorf("%v covers %v: %v; it allows all its requests: %v", have, want, got, implied)
			}
			if missing := Missing([]rbacv1.PolicyRule{have}, []rbacv1.PolicyRule{want}); (missing == "") != got {
				t.Errorf("%v covers %v: %v; Missing returns %q", have, want, got, missing)
			}
			if got {
				covered++
			}
		}
	}
	if covered < len(rules) || covered == len(rules)*len(rules) {
		t.Errorf("%d of %d pairs are covered", covered, len(rules)*len(rules))
	}
}

// TestCoversTogether checks that two rules together cover a third one, part by part.
func TestCoversTogether(t *testing.T) {
	get := rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}}
	list := rbacv1.PolicyRule{Verbs: []string{"list"}, APIGroups: []string{""}, Resources: []string{"pods"}}
	both := rbacv1.PolicyRule{Verbs: []string{"get", "list"}, APIGroups: []string{""}, Resources: []string{"pods"}}
	if !Covers([]rbacv1.PolicyRule{get, list}, []rbacv1.PolicyRule{both}) {
		t.Error("two rules do not cover a rule that they allow together")
	}
	if got, want := Missing([]rbacv1.PolicyRule{get}, []rbacv1.PolicyRule{both, both}), `{APIGroups:[""], Resources:["pods"], Verbs:["list" "list"]}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
