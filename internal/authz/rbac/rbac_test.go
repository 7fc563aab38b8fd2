package rbac_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/internal/authn"
	"github.com/kapok-dev/kapok/internal/authz"
	"github.com/kapok-dev/kapok/internal/authz/rbac"
	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/journal/memory"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/state"
	"github.com/kapok-dev/kapok/test/seeds"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// world is a state with roles and bindings, and lists of the same objects.
type world struct {
	t        testing.TB
	state    *state.State
	roles    map[object.Key][]rbacv1.PolicyRule
	bindings map[object.Key]bound
	stored   map[object.Key]object.Revision
}

type bound struct {
	ref      rbacv1.RoleRef
	subjects []rbacv1.Subject
}

func newWorld(t testing.TB) *world {
	s, err := state.Open(t.Context(), memory.New(), state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return &world{t, s, map[object.Key][]rbacv1.PolicyRule{}, map[object.Key]bound{}, map[object.Key]object.Revision{}}
}

func key(resource, namespace, name string) object.Key {
	return object.Key{Resource: schema.GroupResource{Group: rbacv1.GroupName, Resource: resource}, Namespace: namespace, Name: name}
}

// put stores an object, or removes it if v is nil.
func (w *world) put(k object.Key, v any) {
	w.t.Helper()
	entry := journal.Entry{Key: k, Prev: w.stored[k]}
	if v != nil {
		data, err := json.Marshal(v)
		if err != nil {
			w.t.Fatal(err)
		}
		tree, err := object.DecodeTree(data)
		if err != nil {
			w.t.Fatal(err)
		}
		tree["metadata"] = map[string]any{"name": k.Name, "uid": "u"}
		if entry.Object, err = object.New(k, tree, 0, time.Now()); err != nil {
			w.t.Fatal(err)
		}
	} else if entry.Prev == 0 {
		return
	}
	rev, err := w.state.Append(w.t.Context(), journal.Batch{Entries: []journal.Entry{entry}})
	if err != nil {
		w.t.Fatal(err)
	}
	if w.stored[k] = rev; v == nil {
		delete(w.stored, k)
	}
}

func (w *world) role(namespace, name string, rules ...rbacv1.PolicyRule) {
	w.t.Helper()
	k := key("clusterroles", "", name)
	if namespace != "" {
		k = key("roles", namespace, name)
	}
	w.roles[k] = rules
	w.put(k, rbacv1.ClusterRole{Rules: rules})
}

func (w *world) bind(namespace, name string, ref rbacv1.RoleRef, subjects ...rbacv1.Subject) {
	w.t.Helper()
	k := key("clusterrolebindings", "", name)
	if namespace != "" {
		k = key("rolebindings", namespace, name)
	}
	w.bindings[k] = bound{ref, subjects}
	w.put(k, rbacv1.ClusterRoleBinding{RoleRef: ref, Subjects: subjects})
}

func clusterRole(name string) rbacv1.RoleRef {
	return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}
}

func user(name string) rbacv1.Subject  { return rbacv1.Subject{Kind: "User", Name: name} }
func group(name string) rbacv1.Subject { return rbacv1.Subject{Kind: "Group", Name: name} }

func rule(verbs, groups, resources string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{
		Verbs: strings.Split(verbs, " "), APIGroups: strings.Split(groups, " "), Resources: strings.Split(resources, " "), ResourceNames: names,
	}
}

// model decides slowly, in the steps of the documentation. It returns the bindings that allow the
// request, and the names of the user's missing roles.
func (w *world) model(a *authz.Attributes) (by, missing []string) {
	for k, b := range w.bindings {
		if k.Namespace != "" && k.Namespace != a.Namespace {
			continue
		}
		applies := slices.ContainsFunc(b.subjects, func(s rbacv1.Subject) bool {
			switch s.Kind {
			case "User":
				return s.Name == a.User.Name
			case "Group":
				return a.User.In(s.Name)
			}
			namespace := s.Namespace
			if namespace == "" {
				namespace = k.Namespace
			}
			return namespace != "" && a.User.Name == "system:serviceaccount:"+namespace+":"+s.Name
		})
		if !applies {
			continue
		}
		at := key("clusterroles", "", b.ref.Name)
		if b.ref.Kind == "Role" {
			at = key("roles", k.Namespace, b.ref.Name)
		}
		rules, ok := w.roles[at]
		if !ok {
			missing = append(missing, b.ref.Name)
		}
		if slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool { return modelAllows(&r, a) }) {
			by = append(by, k.Name)
		}
	}
	return by, missing
}

func modelAllows(r *rbacv1.PolicyRule, a *authz.Attributes) bool {
	has := func(list []string, value string) bool {
		return slices.Contains(list, value) || slices.Contains(list, "*")
	}
	if strings.HasPrefix(a.Path, "/kapok/") {
		return slices.Contains(r.Verbs, a.Verb) && slices.Contains(r.NonResourceURLs, a.Path)
	}
	if !has(r.Verbs, a.Verb) {
		return false
	}
	if !a.ResourceRequest {
		return slices.ContainsFunc(r.NonResourceURLs, func(url string) bool {
			return url == a.Path || strings.HasSuffix(url, "*") && strings.HasPrefix(a.Path, strings.TrimRight(url, "*"))
		})
	}
	resource, ok := a.Resource, has(r.Resources, a.Resource)
	if a.Subresource != "" {
		resource += "/" + a.Subresource
		ok = has(r.Resources, resource) || slices.Contains(r.Resources, "*/"+a.Subresource)
	}
	return ok && has(r.APIGroups, a.APIGroup) && (len(r.ResourceNames) == 0 || slices.Contains(r.ResourceNames, a.Name))
}

// TestRandom compares decisions with those of the model while roles and bindings are created,
// changed and deleted.
func TestRandom(t *testing.T) {
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
	allowed := 0
	for range 3000 {
		namespace, name := pick("", "", "x", "y"), pick("a", "b", "c", "d", "e")
		resource := map[bool][2]string{true: {"clusterroles", "clusterrolebindings"}, false: {"roles", "rolebindings"}}[namespace == ""]
		switch rnd.IntN(8) {
		case 0:
			k := key(resource[0], namespace, name)
			delete(w.roles, k)
			w.put(k, nil)
		case 1:
			k := key(resource[1], namespace, name)
			delete(w.bindings, k)
			w.put(k, nil)
		case 2, 3:
			var rules []rbacv1.PolicyRule
			for range rnd.IntN(4) {
				r := rbacv1.PolicyRule{Verbs: some("get", "list", "create", "*")}
				if namespace == "" && rnd.IntN(4) == 0 {
					r.NonResourceURLs = some("/healthz", "/apis/*", "*", "/api", "/apis**", "/kapok/v1/doctor", "/kapok/*")
				} else {
					r.APIGroups, r.Resources = some("", "apps", "*"), some("pods", "pods/log", "*/scale", "deployments", "*", "deployments/scale")
					if rnd.IntN(3) == 0 {
						r.ResourceNames = some("one", "two")
					}
				}
				rules = append(rules, r)
			}
			w.role(namespace, name, rules...)
		case 4, 5:
			var subjects []rbacv1.Subject
			for range rnd.IntN(3) {
				switch rnd.IntN(3) {
				case 0:
					subjects = append(subjects, user(pick("jane", "joe", "system:serviceaccount:x:robot")))
				case 1:
					subjects = append(subjects, group(pick("devs", "ops")))
				case 2:
					subjects = append(subjects, rbacv1.Subject{Kind: "ServiceAccount", Namespace: pick("", "x", "y"), Name: pick("robot", "other")})
				}
			}
			ref := rbacv1.RoleRef{Kind: "ClusterRole", Name: pick("a", "b", "c", "d", "e", "f")}
			if namespace != "" {
				ref.Kind = pick("ClusterRole", "Role")
			}
			w.bind(namespace, name, ref, subjects...)
		}
		a := &authz.Attributes{
			User: &authn.User{Name: pick("jane", "joe", "none", "system:serviceaccount:x:robot"), Groups: some("devs", "ops", "system:authenticated")},
			Verb: pick("get", "list", "create", "delete"),
		}
		if rnd.IntN(5) == 0 {
			a.Path = pick("/healthz", "/apis/apps", "/api", "/other", "/kapok/v1/doctor")
		} else {
			a.ResourceRequest, a.APIGroup = true, pick("", "apps", "batch")
			a.Resource, a.Subresource = pick("pods", "deployments", "jobs"), pick("", "", "log", "scale")
			a.Namespace, a.Name = pick("", "x", "y"), pick("", "one", "two", "three")
		}
		if got, want := by.Dump(), rbac.New(w.state).Dump(); got != want {
			t.Fatalf("the index is\n%s\nwant, from scratch\n%s", got, want)
		}
		want, missing := w.model(a)
		d, reason, err := by.Authorize(t.Context(), a)
		switch {
		case err != nil:
			t.Fatal(err)
		case (d == authz.Allow) != (len(want) > 0):
			t.Fatalf("%+v by %+v: %v (%s), want by %q", a, a.User, d, reason, want)
		case d == authz.Allow && !slices.ContainsFunc(want, func(name string) bool {
			return strings.Contains(reason, fmt.Sprintf("Binding %q", name)) || strings.Contains(reason, `Binding "`+name+"/")
		}):
			t.Fatalf("%+v is allowed because of %s, want one of %q", a, reason, want)
		case d == authz.NoOpinion && (reason != "") != (len(missing) > 0 || strings.HasPrefix(a.Path, "/kapok/")):
			t.Fatalf("%+v has no decision because of %q, missing are %q", a, reason, missing)
		}
		if d == authz.Allow {
			allowed++
		}
	}
	if allowed < 100 {
		t.Errorf("only %d of 3000 requests were allowed", allowed)
	}
}

func TestReasons(t *testing.T) {
	w := newWorld(t)
	by := rbac.New(w.state)
	w.role("", "reader", rule("get list", "", "pods pods/log"))
	w.role("x", "writer", rule("create", "", "pods"))
	w.bind("", "all", clusterRole("reader"), group("ops"), user("jane"))
	w.bind("x", "local", rbacv1.RoleRef{Kind: "Role", Name: "writer"}, rbacv1.Subject{Kind: "ServiceAccount", Name: "robot"})
	w.bind("x", "far", clusterRole("reader"), rbacv1.Subject{Kind: "ServiceAccount", Name: "robot", Namespace: "y"})
	w.bind("", "gone", clusterRole("none"), user("joe"))
	w.bind("x", "gone", rbacv1.RoleRef{Kind: "Role", Name: "nothing"}, user("joe"))
	for _, c := range []struct {
		user, groups, verb, namespace, resource, sub string
		want                                         string // "" if there is neither a decision nor a reason
	}{
		{"jane", "", "get", "x", "pods", "log", `RBAC: allowed by ClusterRoleBinding "all" of ClusterRole "reader" to User "jane"`},
		{"jane", "ops", "get", "", "pods", "", `RBAC: allowed by ClusterRoleBinding "all" of ClusterRole "reader" to Group "ops"`},
		{"jane", "", "create", "x", "pods", "", ""},
		{"jane", "", "get", "x", "pods", "exec", ""},
		{"system:serviceaccount:x:robot", "", "create", "x", "pods", "", `RBAC: allowed by RoleBinding "local/x" of Role "writer" to ServiceAccount "robot/x"`},
		{"system:serviceaccount:y:robot", "", "get", "x", "pods", "", `RBAC: allowed by RoleBinding "far/x" of ClusterRole "reader" to ServiceAccount "robot/y"`},
		{"system:serviceaccount:y:robot", "", "get", "y", "pods", "", ""},
		{"joe", "", "get", "", "pods", "", `RBAC: clusterrole.rbac.authorization.k8s.io "none" not found`},
		{"joe", "", "get", "x", "pods", "", `RBAC: [clusterrole.rbac.authorization.k8s.io "none" not found, role.rbac.authorization.k8s.io "nothing" not found]`},
		{"joe", "ops", "get", "x", "pods", "", `RBAC: allowed by ClusterRoleBinding "all" of ClusterRole "reader" to Group "ops"`},
	} {
		_, got, err := by.Authorize(t.Context(), &authz.Attributes{
			User: &authn.User{Name: c.user, Groups: strings.Fields(c.groups)}, ResourceRequest: true,
			Verb: c.verb, Namespace: c.namespace, Resource: c.resource, Subresource: c.sub,
		})
		if err != nil || got != c.want {
			t.Errorf("%s (%s) %s %s/%s in %q: %s, %v; want %s", c.user, c.groups, c.verb, c.resource, c.sub, c.namespace, got, err, c.want)
		}
	}
}

// TestNextRequest checks that granted and revoked permissions are in effect at the next request.
func TestNextRequest(t *testing.T) {
	w := newWorld(t)
	by := rbac.New(w.state)
	a := &authz.Attributes{User: &authn.User{Name: "jane"}, ResourceRequest: true, Verb: "get", Resource: "pods"}
	decide := func() authz.Decision {
		d, _, _ := by.Authorize(t.Context(), a)
		return d
	}
	w.bind("", "b", clusterRole("r"), user("jane"))
	for i := range 50 {
		w.role("", "r", rule("get", "", "pods"))
		if decide() != authz.Allow {
			t.Fatalf("round %d: not allowed by the role that was just written", i)
		}
		w.put(key("clusterroles", "", "r"), nil)
		if decide() == authz.Allow {
			t.Fatalf("round %d: allowed by a deleted role", i)
		}
	}
}

func TestRulesFor(t *testing.T) {
	w := newWorld(t)
	by := rbac.New(w.state)
	w.role("", "r", rule("get", "", "pods"))
	w.role("x", "r", rule("create", "", "pods"))
	w.bind("", "b", clusterRole("r"), user("jane"), group("ops"))
	w.bind("", "gone", clusterRole("none"), user("jane"))
	w.bind("x", "b", rbacv1.RoleRef{Kind: "Role", Name: "r"}, group("ops"))
	rules, incomplete, err := by.RulesFor(t.Context(), &authn.User{Name: "jane", Groups: []string{"ops"}}, "x")
	if len(rules) != 2 || incomplete || err == nil || err.Error() != `clusterrole.rbac.authorization.k8s.io "none" not found` {
		t.Errorf("got %v, %v, %v", rules, incomplete, err)
	}
	bindings := schema.GroupResource{Group: rbacv1.GroupName, Resource: "clusterrolebindings"}
	if rules, err := by.RulesOf(rbacv1.RoleRef{Kind: "Role", Name: "r"}, "x", bindings); err != nil || len(rules) != 1 {
		t.Errorf("got %v, %v", rules, err)
	}
	_, err = by.RulesOf(clusterRole("none"), "", bindings)
	if err == nil || err.Error() != `clusterrolebindings.rbac.authorization.k8s.io "none" not found` {
		t.Errorf("got %v", err)
	}
	_, err = by.RulesOf(rbacv1.RoleRef{Kind: "Rule", Name: "none"}, "", bindings)
	if err == nil || err.Error() != `unsupported role reference kind: "Rule"` {
		t.Errorf("got %v", err)
	}
}

func BenchmarkAuthorize(b *testing.B) {
	w := newWorld(b)
	for i := range 1000 {
		name := fmt.Sprintf("role-%04d", i)
		w.role("", name, rule("get list watch", "", "pods services configmaps"), rule("*", "apps", "deployments deployments/scale"),
			rule("update", fmt.Sprintf("group%d.example.com", i), "things", "one"))
		w.bind("", name, clusterRole(name), user(fmt.Sprintf("user-%d", i)), group(fmt.Sprintf("group-%d", i%10)), user("everyone"))
	}
	by := rbac.New(w.state)
	groups := []string{"group-1", "devs", "staff", "system:authenticated"}
	for _, c := range []struct {
		name string
		a    authz.Attributes
	}{
		{"allowed", authz.Attributes{User: &authn.User{Name: "user-1", Groups: groups}, Verb: "list", Resource: "pods", Namespace: "x"}},
		{"refused", authz.Attributes{User: &authn.User{Name: "user-1", Groups: groups}, Verb: "get", Resource: "secrets", Namespace: "x", Name: "a"}},
		{"subresource", authz.Attributes{User: &authn.User{Name: "user-1", Groups: groups}, Verb: "update", APIGroup: "apps", Resource: "deployments", Subresource: "scale", Namespace: "x", Name: "a"}},
		{"unknown", authz.Attributes{User: &authn.User{Name: "nobody", Groups: groups[1:]}, Verb: "get", Resource: "pods", Namespace: "x", Name: "a"}},
		{"in-every-binding", authz.Attributes{User: &authn.User{Name: "everyone"}, Verb: "delete", Resource: "secrets", Namespace: "x", Name: "a"}},
	} {
		b.Run(c.name, func(b *testing.B) {
			c.a.ResourceRequest = true
			ctx := context.Background()
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := by.Authorize(ctx, &c.a); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkAfterChange measures one change and one decision, with the given number of roles and of
// role bindings, each in its own namespace. A user without permissions may write an empty role.
func BenchmarkAfterChange(b *testing.B) {
	for _, n := range []int{10, 100, 1000, 10000} {
		w := manyNamespaces(b, n)
		by := rbac.New(w.state)
		a := &authz.Attributes{User: &authn.User{Name: "user-1", Groups: []string{"system:authenticated"}}, ResourceRequest: true, Verb: "list", Resource: "pods", Namespace: "ns-1"}
		for _, c := range []struct {
			name   string
			change func(i int)
		}{
			{"role", func(int) { w.role("ns-0", "empty") }},
			{"binding", func(i int) { w.bind("ns-0", "b", clusterRole("reader"), user(fmt.Sprint("other", i%2))) }},
		} {
			b.Run(fmt.Sprintf("%s/bindings=%d", c.name, n), func(b *testing.B) {
				i := 0
				by.Authorize(b.Context(), a)
				for b.Loop() {
					b.StopTimer() // without the write itself
					c.change(i)
					i++
					b.StartTimer()
					if d, _, _ := by.Authorize(b.Context(), a); d != authz.Allow {
						b.Fatal(d)
					}
				}
			})
		}
	}
}

// manyNamespaces returns a world with a role and a binding in each of n namespaces.
func manyNamespaces(t testing.TB, n int) *world {
	w := newWorld(t)
	w.role("", "reader", rule("get list watch", "", "pods services configmaps"))
	for i := range n {
		namespace := fmt.Sprint("ns-", i)
		w.role(namespace, "r", rule("get", "", "secrets"))
		w.bind(namespace, "b", clusterRole("reader"), user(fmt.Sprint("user-", i)), group(fmt.Sprint("group-", i)))
	}
	return w
}

// TestChangeCostsWhatItChanges checks that the cost of a write depends neither on the number of
// roles and bindings, nor on the number of bindings of the written role.
func TestChangeCostsWhatItChanges(t *testing.T) {
	for _, n := range []int{10, 100, 1000} {
		w := manyNamespaces(t, n)
		by := rbac.New(w.state)
		check := func(what string, objects, grants int) {
			t.Helper()
			if o, g := by.Work(); o != objects || g != grants {
				t.Errorf("%d namespaces: %s: %d objects and %d grants, want %d and %d", n, what, o, g, objects, grants)
			}
		}
		check("at first", 2*n+1, 2*n)
		w.role("ns-1", "empty")
		check("an empty role", 1, 0)
		w.role("", "reader", rule("get", "", "pods"))
		check("a role that is bound everywhere", 1, 0)
		w.bind("ns-1", "b", clusterRole("reader"), user("user-1"), group("group-1"))
		check("a binding written as it was", 1, 0)
		w.bind("ns-1", "b", clusterRole("reader"), user("user-1"), group("group-2"), group("group-3"))
		check("a binding of two subjects gets three", 1, 5)
		for range 20 {
			w.role("ns-2", "r")
			w.role("ns-3", "r")
		}
		check("a burst of changes of two roles", 2, 0)
	}
}

// TestManyBindingsOfARole checks that many bindings of the same roles hide neither a role that
// allows a request, nor a missing one.
func TestManyBindingsOfARole(t *testing.T) {
	w := newWorld(t)
	by := rbac.New(w.state)
	for i := range 100 {
		for _, role := range []string{"a", "c", "e"} {
			w.bind("", fmt.Sprint(role, i), clusterRole(role), user("jane"))
		}
	}
	w.role("", "a")
	w.role("", "b", rule("get", "", "pods"))
	w.role("", "c", rule("list", "", "pods"))
	w.role("", "d", rule("watch", "", "pods"))
	w.role("", "e")
	w.bind("", "single-b", clusterRole("b"), user("jane"))
	w.bind("", "single-d", clusterRole("d"), user("jane"))
	for verb, want := range map[string]string{
		"get":    `RBAC: allowed by ClusterRoleBinding "single-b" of ClusterRole "b" to User "jane"`,
		"list":   `RBAC: allowed by ClusterRoleBinding "c0" of ClusterRole "c" to User "jane"`,
		"watch":  `RBAC: allowed by ClusterRoleBinding "single-d" of ClusterRole "d" to User "jane"`,
		"create": "",
	} {
		a := &authz.Attributes{User: &authn.User{Name: "jane"}, ResourceRequest: true, Verb: verb, Resource: "pods"}
		if _, got, _ := by.Authorize(t.Context(), a); got != want {
			t.Errorf("%s: %s, want %s", verb, got, want)
		}
	}
	// A ClusterRoleBinding does not refer to a Role, even if a ClusterRole has the same name.
	w.bind("", "local", rbacv1.RoleRef{Kind: "Role", Name: "b"}, user("joe"))
	a := &authz.Attributes{User: &authn.User{Name: "joe"}, ResourceRequest: true, Verb: "get", Resource: "pods"}
	if d, got, _ := by.Authorize(t.Context(), a); d == authz.Allow || !strings.Contains(got, "not found") {
		t.Errorf("%v: %s", d, got)
	}
}

// BenchmarkFirstQuestions measures the first decisions after a write for a user with many roles: a
// walk, and making a table.
func BenchmarkFirstQuestions(b *testing.B) {
	for _, n := range []int{10, 100, 1000, 10000} {
		w := newWorld(b)
		for i := range n {
			name := fmt.Sprintf("role-%05d", i)
			w.role("", name, rule("get list watch", "", "pods services configmaps"), rule("update", fmt.Sprintf("group%d.example.com", i), "things", "one"))
			w.bind("", name, clusterRole(name), user("jane"))
		}
		by := rbac.New(w.state)
		a := &authz.Attributes{User: &authn.User{Name: "jane"}, ResourceRequest: true, Verb: "delete", Resource: "pods"}
		by.Authorize(b.Context(), a)
		for _, questions := range []int{1, rbac.Walks} {
			b.Run(fmt.Sprintf("roles=%d/questions=%d", n, questions), func(b *testing.B) {
				for b.Loop() {
					b.StopTimer()
					w.role("", "other")
					b.StartTimer()
					for range questions {
						by.Authorize(b.Context(), a)
					}
				}
			})
		}
	}
}

// BenchmarkAuthorizeManyRoles measures a decision for a user with many roles in the cluster, each
// with its own binding.
func BenchmarkAuthorizeManyRoles(b *testing.B) {
	for _, n := range []int{10, 100, 1000, 10000} {
		w := newWorld(b)
		for i := range n {
			name := fmt.Sprintf("role-%05d", i)
			w.role("", name, rule("get list watch", "", "pods services configmaps"), rule("*", "apps", "deployments deployments/scale"),
				rule("update", fmt.Sprintf("group%d.example.com", i), "things", "one"))
			w.bind("", name, clusterRole(name), user("jane"))
		}
		by := rbac.New(w.state)
		for _, c := range []struct {
			name string
			want authz.Decision
			a    authz.Attributes
		}{
			{"first", authz.Allow, authz.Attributes{Verb: "get", Resource: "pods", Namespace: "x", Name: "a"}},
			{"last", authz.Allow, authz.Attributes{Verb: "update", APIGroup: fmt.Sprintf("group%d.example.com", n-1), Resource: "things", Namespace: "x", Name: "one"}},
			{"refused", authz.NoOpinion, authz.Attributes{Verb: "delete", Resource: "pods", Namespace: "x", Name: "a"}},
			{"path", authz.NoOpinion, authz.Attributes{Verb: "get", Path: "/healthz"}},
		} {
			b.Run(fmt.Sprintf("%s/roles=%d", c.name, n), func(b *testing.B) {
				c.a.User, c.a.ResourceRequest = &authn.User{Name: "jane", Groups: []string{"system:authenticated"}}, c.a.Path == ""
				b.ReportAllocs()
				for range rbac.Walks { // to make the table
					by.Authorize(b.Context(), &c.a)
				}
				for b.Loop() {
					if d, _, _ := by.Authorize(b.Context(), &c.a); d != c.want {
						b.Fatal(d)
					}
				}
			})
		}
	}
}
