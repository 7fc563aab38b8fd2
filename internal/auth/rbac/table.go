package rbac

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/internal/auth"

	rbacv1 "k8s.io/api/rbac/v1"
)

// A table is the rules of a subject, at the places where a question looks for them.
type table struct {
	resources map[resourceKey][]*entry
	paths     map[string][]*entry // of URLs in full
	prefixes  []prefix            // of URLs that end in a star
	broken    []grant             // those without a role
}

// resourceKey is a group and a resource of a rule, as they are written there: "", pods/log, */scale, *.
type resourceKey struct{ group, resource string }

type prefix struct {
	path string
	*entry
}

// An entry is a rule that a grant gives, and how that is said.
type entry struct {
	grant  grant
	rule   *rbacv1.PolicyRule
	reason string
}

// compiled returns the table of a subject.
func (s *subject) compiled() *table {
	s.once.Do(func() {
		s.table = table{resources: map[resourceKey][]*entry{}, paths: map[string][]*entry{}}
		for _, g := range s.grants {
			if g.role == nil {
				s.table.broken = append(s.table.broken, g)
				continue
			}
			reason := "RBAC: allowed by " + g.String()
			rules := g.role.rules()
			for i := range rules {
				s.table.add(&entry{grant: g, rule: &rules[i], reason: reason})
			}
		}
	})
	return &s.table
}

func (t *table) add(e *entry) {
	for _, group := range e.rule.APIGroups {
		for _, resource := range e.rule.Resources {
			key := resourceKey{group, resource}
			t.resources[key] = append(t.resources[key], e)
		}
	}
	for _, url := range e.rule.NonResourceURLs {
		t.paths[url] = append(t.paths[url], e)
		if strings.HasSuffix(url, "*") {
			t.prefixes = append(t.prefixes, prefix{strings.TrimRight(url, "*"), e})
		}
	}
}

// A question is a request, taken apart as the tables are. It holds no memory of its own but for long names.
type question struct {
	*auth.Attributes
	user     *auth.User
	combined string // resource/subresource
	anySub   string // */subresource; "" without one
}

func newQuestion(a *auth.Attributes) question {
	q := question{Attributes: a, user: a.User, combined: a.Resource}
	if a.ResourceRequest && a.Subresource != "" {
		q.combined, q.anySub = a.Resource+"/"+a.Subresource, "*/"+a.Subresource
	}
	return q
}

// allows returns the first entry that allows what is asked.
func (t *table) allows(q *question) *entry {
	if !q.ResourceRequest {
		return t.allowsPath(q)
	}
	var first *entry
	for _, group := range [...]string{q.APIGroup, rbacv1.APIGroupAll} {
		first = q.first(t.resources[resourceKey{group, q.combined}], first)
		first = q.first(t.resources[resourceKey{group, rbacv1.ResourceAll}], first)
		if q.anySub != "" {
			first = q.first(t.resources[resourceKey{group, q.anySub}], first)
		}
	}
	return first
}

func (t *table) allowsPath(q *question) *entry {
	first := q.first(t.paths[q.Path], nil)
	for _, p := range t.prefixes {
		if strings.HasPrefix(q.Path, p.path) && q.matches(p.rule) && (first == nil || p.grant.compare(first.grant) < 0) {
			first = p.entry
		}
	}
	return first
}

// first is the first of some entries that allows what is asked, or another if that comes before it.
func (q *question) first(entries []*entry, other *entry) *entry {
	for _, e := range entries {
		if other != nil && e.grant.compare(other.grant) >= 0 {
			return other
		}
		if q.matches(e.rule) {
			return e
		}
	}
	return other
}

// matches judges the rest of a rule that stands at the right place.
func (q *question) matches(r *rbacv1.PolicyRule) bool {
	if !slices.Contains(r.Verbs, q.Verb) && !slices.Contains(r.Verbs, rbacv1.VerbAll) {
		return false
	}
	return !q.ResourceRequest || len(r.ResourceNames) == 0 || slices.Contains(r.ResourceNames, q.Name)
}

// String names a grant as Kubernetes does, names before their namespaces.
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
