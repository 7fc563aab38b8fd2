package rbac_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/internal/authn"
	"github.com/kapok-dev/kapok/internal/authz"
	"github.com/kapok-dev/kapok/internal/authz/rbac"
	"github.com/kapok-dev/kapok/test/seeds"

	rbacv1 "k8s.io/api/rbac/v1"
)

// TestTablesAnswerAsTheWalk compares decisions and reasons for users with many roles with those of
// a walk of the roles, from the first request on, while roles and bindings change.
func TestTablesAnswerAsTheWalk(t *testing.T) {
	seed := seeds.Of(t)
	rnd := rand.New(rand.NewPCG(seed, 1))
	pick := func(from ...string) string { return from[rnd.IntN(len(from))] }
	some := func(from ...string) []string {
		var list []string
		for range 1 + rnd.IntN(2) {
			list = append(list, pick(from...))
		}
		return list
	}
	w := newWorld(t)
	by := rbac.New(w.state)
	walk := by.Walk()
	name := func() string { return fmt.Sprint("role-", rnd.IntN(40)) }
	change := func() {
		namespace, name := pick("", "", "x"), name()
		switch rnd.IntN(10) {
		case 0:
			resource := "clusterroles"
			if namespace != "" {
				resource = "roles"
			}
			w.put(key(resource, namespace, name), nil)
		case 1, 2, 3, 4:
			var rules []rbacv1.PolicyRule
			for range rnd.IntN(3) {
				r := rbacv1.PolicyRule{Verbs: some("get", "list", "create", "update", "watch", "*")}
				if namespace == "" && rnd.IntN(6) == 0 {
					r.NonResourceURLs = some("/healthz", "/apis/*", "/api", "/kapok/v1/doctor")
				} else {
					r.APIGroups, r.Resources = some("", "apps", "batch", "*"), some("pods", "pods/log", "*/scale", "deployments", "*", "deployments/scale", "*/log")
				}
				if rnd.IntN(2) == 0 {
					r.ResourceNames = some("one", "two", "")
				}
				if rnd.IntN(3) > 0 { // otherwise, most requests are allowed
					r.Verbs, r.APIGroups = some("get", "list", "create", "update"), some("", "apps")
				}
				rules = append(rules, r)
			}
			w.role(namespace, name, rules...)
		default:
			ref := rbacv1.RoleRef{Kind: "ClusterRole", Name: name}
			if namespace != "" {
				ref.Kind = pick("ClusterRole", "Role")
			}
			w.bind(namespace, fmt.Sprint("binding-", rnd.IntN(120)), ref,
				[]rbacv1.Subject{user("jane"), user("joe"), group("devs"), group("ops"), user("jane")}[rnd.IntN(4):][:1+rnd.IntN(2)]...)
		}
	}
	for range 300 {
		change()
	}
	answers, tables := map[authz.Decision]int{}, 0
	for range 200 {
		change()
		for range 60 {
			a := &authz.Attributes{
				User: &authn.User{Name: pick("jane", "joe"), Groups: some("devs", "ops", "other")},
				Verb: pick("get", "list", "create", "delete", "*"),
			}
			if rnd.IntN(5) == 0 {
				a.Path = pick("/healthz", "/apis/apps", "/api", "/other", "/kapok/v1/doctor")
			} else {
				a.ResourceRequest, a.APIGroup = true, pick("", "apps", "batch", "*")
				a.Resource, a.Subresource = pick("pods", "deployments", "jobs", "*"), pick("", "", "log", "scale", "*")
				a.Namespace, a.Name = pick("", "x"), pick("", "one", "two", "three")
			}
			want, wantReason, _ := walk.Authorize(t.Context(), a)
			got, reason, err := by.Authorize(t.Context(), a)
			if err != nil || got != want || reason != wantReason {
				t.Fatalf("%+v by %+v: %v %q, %v; a walk returns %v %q", a, a.User, got, reason, err, want, wantReason)
			}
			answers[got]++
		}
		n, _ := by.Tables()
		tables = max(tables, n)
	}
	if answers[authz.Allow] < 500 || answers[authz.NoOpinion] < 500 || tables < 4 {
		t.Errorf("decisions %v with up to %d tables: too little coverage", answers, tables)
	}
}

// TestTablesAreMadeForManyRolesOnly checks that few roles are walked, and that many get a table
// after a few requests, until one of them changes.
func TestTablesAreMadeForManyRolesOnly(t *testing.T) {
	w := newWorld(t)
	by := rbac.New(w.state)
	for i := range rbac.Few + 1 {
		name := fmt.Sprint("r", i)
		w.role("", name, rule("get", "", fmt.Sprint("things", i)))
		w.bind("", name, clusterRole(name), user("jane"))
		if i < rbac.Few {
			w.bind("", "joe"+name, clusterRole(name), user("joe"))
		}
	}
	ask := func(name, resource string, want authz.Decision) {
		t.Helper()
		a := &authz.Attributes{User: &authn.User{Name: name}, ResourceRequest: true, Verb: "get", Resource: resource}
		if got, reason, _ := by.Authorize(t.Context(), a); got != want {
			t.Errorf("%s get %s: %v (%s), want %v", name, resource, got, reason, want)
		}
	}
	tables := func(want int) {
		t.Helper()
		if got, _ := by.Tables(); got != want {
			t.Errorf("%d tables, want %d", got, want)
		}
	}
	for range 2 * rbac.Walks {
		ask("joe", "pods", authz.NoOpinion)
	}
	tables(0)
	for range rbac.Walks - 1 {
		ask("jane", "pods", authz.NoOpinion)
	}
	tables(0)
	last := fmt.Sprint("things", rbac.Few)
	ask("jane", last, authz.Allow)
	tables(1)
	w.role("", fmt.Sprint("r", rbac.Few))
	for range rbac.Walks - 1 {
		ask("jane", last, authz.NoOpinion)
	}
	tables(0)
	ask("jane", last, authz.NoOpinion)
	tables(1)
	w.role("x", "r", rule("get", "", "pods"))
	ask("jane", last, authz.NoOpinion)
	tables(1) // a write to another namespace has no effect
}

// TestTablesAreBounded checks that tables of many users stay within the limit, and that a user with
// too many rules gets none.
func TestTablesAreBounded(t *testing.T) {
	w := newWorld(t)
	by := rbac.New(w.state)
	wide := func(i, resources int) rbacv1.PolicyRule {
		r := rule("get", "", "pods")
		for j := range resources {
			r.Resources = append(r.Resources, fmt.Sprint("r", i, "-", j))
		}
		return r
	}
	const users = 12
	for i := range rbac.Few + 2 {
		name := fmt.Sprint("r", i)
		w.role("", name, wide(i, rbac.MaxTable/(rbac.Few+3)))
		var all []rbacv1.Subject
		for u := range users {
			all = append(all, user(fmt.Sprint("user", u)))
		}
		w.bind("", name, clusterRole(name), append(all, user("huge"))...)
	}
	w.role("", "huge", wide(99, rbac.MaxTable))
	w.bind("", "huge", clusterRole("huge"), user("huge"))
	for _, round := range []string{"r9-1", "r99-1"} {
		for u := range users + 1 {
			name := strings.Replace(fmt.Sprint("user", u), fmt.Sprint("user", users), "huge", 1)
			for range rbac.Walks + 1 {
				a := &authz.Attributes{User: &authn.User{Name: name}, ResourceRequest: true, Verb: "get", Resource: round}
				want := authz.Allow
				if round == "r99-1" && name != "huge" {
					want = authz.NoOpinion
				}
				if got, _, _ := by.Authorize(t.Context(), a); got != want {
					t.Fatalf("%s get %s: %v", name, round, got)
				}
			}
			if n, entries := by.Tables(); entries > rbac.MaxEntries || n > rbac.MaxEntries/(rbac.MaxTable/2) {
				t.Fatalf("%d tables with %d entries", n, entries)
			}
		}
	}
	if n, _ := by.Tables(); n < 2 {
		t.Errorf("%d tables at the end", n)
	}
}
