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

	"github.com/kapok-dev/kapok/internal/auth"
	"github.com/kapok-dev/kapok/internal/auth/rbac"
	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/journal/memory"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/state"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// world is a state with roles and bindings in it, and the same in plain lists.
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

// put stores an object, or removes what is there.
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

// model decides slowly, and as the words of the documentation say. It returns which bindings allow what is asked, and
// the names of roles that are missing for the user.
func (w *world) model(a *auth.Attributes) (by, missing []string) {
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

func modelAllows(r *rbacv1.PolicyRule, a *auth.Attributes) bool {
	has := func(list []string, value string) bool {
		return slices.Contains(list, value) || slices.Contains(list, "*")
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

// TestRandom compares with the model while roles and bindings come, change and go.
func TestRandom(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
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
	defer by.Close()
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
					r.NonResourceURLs = some("/healthz", "/apis/*", "*", "/api", "/apis**")
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
		a := &auth.Attributes{
			User: &auth.User{Name: pick("jane", "joe", "none", "system:serviceaccount:x:robot"), Groups: some("devs", "ops", "system:authenticated")},
			Verb: pick("get", "list", "create", "delete"),
		}
		if rnd.IntN(5) == 0 {
			a.Path = pick("/healthz", "/apis/apps", "/api", "/other")
		} else {
			a.ResourceRequest, a.APIGroup = true, pick("", "apps", "batch")
			a.Resource, a.Subresource = pick("pods", "deployments", "jobs"), pick("", "", "log", "scale")
			a.Namespace, a.Name = pick("", "x", "y"), pick("", "one", "two", "three")
		}
		want, missing := w.model(a)
		d, reason, err := by.Authorize(t.Context(), a)
		switch {
		case err != nil:
			t.Fatal(err)
		case (d == auth.Allow) != (len(want) > 0):
			t.Fatalf("%+v by %+v: %v (%s), want by %q", a, a.User, d, reason, want)
		case d == auth.Allow && !slices.ContainsFunc(want, func(name string) bool {
			return strings.Contains(reason, fmt.Sprintf("Binding %q", name)) || strings.Contains(reason, `Binding "`+name+"/")
		}):
			t.Fatalf("%+v is allowed because of %s, want one of %q", a, reason, want)
		case d == auth.NoOpinion && (reason != "") != (len(missing) > 0):
			t.Fatalf("%+v is refused because of %q, missing are %q", a, reason, missing)
		}
		if d == auth.Allow {
			allowed++
		}
	}
	if allowed < 100 {
		t.Errorf("%d of 3000 were allowed, so little was tried", allowed)
	}
}

func TestReasons(t *testing.T) {
	w := newWorld(t)
	by := rbac.New(w.state)
	defer by.Close()
	w.role("", "reader", rule("get list", "", "pods pods/log"))
	w.role("x", "writer", rule("create", "", "pods"))
	w.bind("", "all", clusterRole("reader"), group("ops"), user("jane"))
	w.bind("x", "local", rbacv1.RoleRef{Kind: "Role", Name: "writer"}, rbacv1.Subject{Kind: "ServiceAccount", Name: "robot"})
	w.bind("x", "far", clusterRole("reader"), rbacv1.Subject{Kind: "ServiceAccount", Name: "robot", Namespace: "y"})
	w.bind("", "gone", clusterRole("none"), user("joe"))
	w.bind("x", "gone", rbacv1.RoleRef{Kind: "Role", Name: "nothing"}, user("joe"))
	for _, c := range []struct {
		user, groups, verb, namespace, resource, sub string
		want                                         string // "" if refused without a reason
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
		_, got, err := by.Authorize(t.Context(), &auth.Attributes{
			User: &auth.User{Name: c.user, Groups: strings.Fields(c.groups)}, ResourceRequest: true,
			Verb: c.verb, Namespace: c.namespace, Resource: c.resource, Subresource: c.sub,
		})
		if err != nil || got != c.want {
			t.Errorf("%s (%s) %s %s/%s in %q: %s, %v; want %s", c.user, c.groups, c.verb, c.resource, c.sub, c.namespace, got, err, c.want)
		}
	}
}

// TestNextRequest shows that what a write takes away is gone for whoever asks next.
func TestNextRequest(t *testing.T) {
	w := newWorld(t)
	by := rbac.New(w.state)
	defer by.Close()
	a := &auth.Attributes{User: &auth.User{Name: "jane"}, ResourceRequest: true, Verb: "get", Resource: "pods"}
	decide := func() auth.Decision {
		d, _, _ := by.Authorize(t.Context(), a)
		return d
	}
	w.bind("", "b", clusterRole("r"), user("jane"))
	for i := range 50 {
		w.role("", "r", rule("get", "", "pods"))
		if decide() != auth.Allow {
			t.Fatalf("round %d: not allowed by the role that was just written", i)
		}
		w.put(key("clusterroles", "", "r"), nil)
		if decide() == auth.Allow {
			t.Fatalf("round %d: allowed by a role that is gone", i)
		}
	}
}

func TestRulesFor(t *testing.T) {
	w := newWorld(t)
	by := rbac.New(w.state)
	defer by.Close()
	w.role("", "r", rule("get", "", "pods"))
	w.role("x", "r", rule("create", "", "pods"))
	w.bind("", "b", clusterRole("r"), user("jane"), group("ops"))
	w.bind("", "gone", clusterRole("none"), user("jane"))
	w.bind("x", "b", rbacv1.RoleRef{Kind: "Role", Name: "r"}, group("ops"))
	rules, incomplete, err := by.RulesFor(t.Context(), &auth.User{Name: "jane", Groups: []string{"ops"}}, "x")
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
	defer by.Close()
	groups := []string{"group-1", "devs", "staff", "system:authenticated"}
	for _, c := range []struct {
		name string
		a    auth.Attributes
	}{
		{"allowed", auth.Attributes{User: &auth.User{Name: "user-1", Groups: groups}, Verb: "list", Resource: "pods", Namespace: "x"}},
		{"refused", auth.Attributes{User: &auth.User{Name: "user-1", Groups: groups}, Verb: "get", Resource: "secrets", Namespace: "x", Name: "a"}},
		{"subresource", auth.Attributes{User: &auth.User{Name: "user-1", Groups: groups}, Verb: "update", APIGroup: "apps", Resource: "deployments", Subresource: "scale", Namespace: "x", Name: "a"}},
		{"unknown", auth.Attributes{User: &auth.User{Name: "nobody", Groups: groups[1:]}, Verb: "get", Resource: "pods", Namespace: "x", Name: "a"}},
		{"in-every-binding", auth.Attributes{User: &auth.User{Name: "everyone"}, Verb: "delete", Resource: "secrets", Namespace: "x", Name: "a"}},
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
	b.Run("after-a-write", func(b *testing.B) {
		a := &auth.Attributes{User: &auth.User{Name: "user-1", Groups: groups}, ResourceRequest: true, Verb: "list", Resource: "pods"}
		for b.Loop() {
			w.role("", "role-0001", rule("get list", "", "pods"))
			if _, _, err := by.Authorize(context.Background(), a); err != nil {
				b.Fatal(err)
			}
		}
	})
}
