package rbac

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/kapok-dev/kapok/internal/authn"
	"github.com/kapok-dev/kapok/internal/authz"
	"github.com/kapok-dev/kapok/internal/object"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/json"
)

// A role is a Role or a ClusterRole. It is decoded when it is first needed.
type role struct {
	object *object.Object
	once   sync.Once
	list   []rbacv1.PolicyRule
	table  table
}

// rules returns the rules of the role; none if it is invalid.
func (r *role) rules() []rbacv1.PolicyRule {
	r.compiled()
	return r.list
}

// compiled returns the table of the role.
func (r *role) compiled() *table {
	r.once.Do(func() {
		var decoded struct {
			Rules []rbacv1.PolicyRule `json:"rules"`
		}
		if json.UnmarshalCaseSensitivePreserveInts(r.object.Raw, &decoded) == nil {
			r.list = decoded.Rules
		}
		for i := range r.list {
			r.table.add(&r.list[i])
		}
	})
	return &r.table
}

// A RuleSet is an immutable list of rules that are not in the store. Make one with [Compile].
type RuleSet struct{ table table }

// Compile returns a RuleSet. The rules must not be changed afterwards.
func Compile(rules []rbacv1.PolicyRule) *RuleSet {
	s := &RuleSet{}
	for i := range rules {
		s.table.add(&rules[i])
	}
	return s
}

// Allows reports whether one of the rules allows a request.
func (s *RuleSet) Allows(a *authz.Attributes) bool {
	q := newQuestion(a)
	return s.table.allows(&q)
}

// A table contains the rules of a role, by group and resource, and by path.
type table struct {
	resources map[resourceKey][]*rbacv1.PolicyRule
	paths     map[string][]*rbacv1.PolicyRule // by complete URL
	prefixes  []prefix                        // URLs that end in a star
}

// resourceKey is a group and a resource, as written in a rule: "", pods/log, */scale, *.
type resourceKey struct{ group, resource string }

type prefix struct {
	path string
	*rbacv1.PolicyRule
}

func (t *table) add(rule *rbacv1.PolicyRule) {
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			if t.resources == nil {
				t.resources = map[resourceKey][]*rbacv1.PolicyRule{}
			}
			key := resourceKey{group, resource}
			t.resources[key] = append(t.resources[key], rule)
		}
	}
	for _, url := range rule.NonResourceURLs {
		if t.paths == nil {
			t.paths = map[string][]*rbacv1.PolicyRule{}
		}
		t.paths[url] = append(t.paths[url], rule)
		if strings.HasSuffix(url, "*") {
			t.prefixes = append(t.prefixes, prefix{strings.TrimRight(url, "*"), rule})
		}
	}
}

// A question is a request in the form of the keys of tables. It allocates no memory except for long
// names.
type question struct {
	*authz.Attributes
	user     *authn.User
	combined string // resource/subresource
	anySub   string // */subresource; "" without one
}

func newQuestion(a *authz.Attributes) question {
	q := question{Attributes: a, user: a.User, combined: a.Resource}
	if a.ResourceRequest && a.Subresource != "" {
		q.combined, q.anySub = a.Resource+"/"+a.Subresource, "*/"+a.Subresource
	}
	return q
}

// ownPath reports whether the request is for one of Kapok's own paths, which wildcards do not
// match.
func (q *question) ownPath() bool { return !q.ResourceRequest && authz.OwnPath(q.Path) }

// allows reports whether a rule allows the request.
func (t *table) allows(q *question) bool {
	if !q.ResourceRequest {
		if q.ownPath() {
			return q.matchesAny(t.paths[q.Path])
		}
		return t.allowsPath(q)
	}
	if len(t.resources) == 0 {
		return false
	}
	for _, group := range [...]string{q.APIGroup, rbacv1.APIGroupAll} {
		if q.matchesAny(t.resources[resourceKey{group, q.combined}]) ||
			q.matchesAny(t.resources[resourceKey{group, rbacv1.ResourceAll}]) ||
			q.anySub != "" && q.matchesAny(t.resources[resourceKey{group, q.anySub}]) {
			return true
		}
	}
	return false
}

func (t *table) allowsPath(q *question) bool {
	return q.matchesAny(t.paths[q.Path]) || slices.ContainsFunc(t.prefixes, func(p prefix) bool {
		return strings.HasPrefix(q.Path, p.path) && q.matches(p.PolicyRule)
	})
}

func (q *question) matchesAny(rules []*rbacv1.PolicyRule) bool {
	for _, r := range rules {
		if q.matches(r) {
			return true
		}
	}
	return false
}

// matches checks the verb and the name of a rule that was found by its other fields.
func (q *question) matches(r *rbacv1.PolicyRule) bool {
	if !slices.Contains(r.Verbs, q.Verb) && (q.ownPath() || !slices.Contains(r.Verbs, rbacv1.VerbAll)) {
		return false
	}
	return !q.ResourceRequest || len(r.ResourceNames) == 0 || slices.Contains(r.ResourceNames, q.Name)
}

// reason returns the reason of a grant for the audit log.
func (g grant) reason() string {
	kept := &g.binding.reasons[g.place]
	if known := kept.Load(); known != nil {
		return *known
	}
	reason := "RBAC: allowed by " + g.String()
	kept.Store(&reason)
	return reason
}

// String describes a grant as Kubernetes does, with names before namespaces.
func (g grant) String() string {
	kind, name := "ClusterRoleBinding", g.binding.key.Name
	if g.binding.key.Resource == roleBindings {
		kind, name = "RoleBinding", name+"/"+g.binding.key.Namespace
	}
	s := &g.binding.subjects[g.place]
	whom := s.Name
	if s.Kind == rbacv1.ServiceAccountKind {
		if s.Namespace != "" {
			whom += "/" + s.Namespace
		} else {
			whom += "/" + g.binding.key.Namespace
		}
	}
	return fmt.Sprintf("%s %q of %s %q to %s %q", kind, name, g.binding.ref.Kind, g.binding.ref.Name, s.Kind, whom)
}
