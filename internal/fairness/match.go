package fairness

import (
	"cmp"
	"hash/maphash"
	"math/bits"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/internal/authn"
	"github.com/kapok-dev/kapok/internal/authz"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
)

// A matcher is a FlowSchema prepared for matching. It is immutable.
type matcher struct {
	name       string
	level      string
	precedence int32
	rules      []rule
	by         flowcontrolv1.FlowDistinguisherMethodType // "" if all requests belong to one flow
}

// A rule matches if one of its subjects does, and one of its resources or paths.
type rule struct {
	subjects  []subject
	resources []resources
	paths     []paths
}

// A subject is a user, all users with a prefix, or a group; "*" is all users.
type subject struct {
	is   subjectKind
	name string
}

type subjectKind uint8

const (
	noSubject subjectKind = iota
	user
	userPrefix
	group
)

type resources struct {
	verbs, groups, resources, namespaces list
	clusterScope                         bool
}

type paths struct{ verbs, paths list }

// A list contains names. A single "*" stands for all names.
type list []string

func (l list) all() bool { return len(l) == 1 && l[0] == "*" }

func (l list) has(name string) bool { return l.all() || slices.Contains(l, name) }

func newMatcher(name string, spec *flowcontrolv1.FlowSchemaSpec) *matcher {
	s := &matcher{name: name, level: spec.PriorityLevelConfiguration.Name, precedence: spec.MatchingPrecedence}
	if spec.DistinguisherMethod != nil {
		s.by = spec.DistinguisherMethod.Type
	}
	for i := range spec.Rules {
		s.rules = append(s.rules, newRule(&spec.Rules[i]))
	}
	return s
}

func newRule(spec *flowcontrolv1.PolicyRulesWithSubjects) rule {
	var r rule
	for _, s := range spec.Subjects {
		r.subjects = append(r.subjects, newSubject(s))
	}
	for _, o := range spec.ResourceRules {
		r.resources = append(r.resources, resources{o.Verbs, o.APIGroups, o.Resources, o.Namespaces, o.ClusterScope})
	}
	for _, o := range spec.NonResourceRules {
		r.paths = append(r.paths, paths{o.Verbs, o.NonResourceURLs})
	}
	return r
}

func newSubject(s flowcontrolv1.Subject) subject {
	const accounts = "system:serviceaccount:"
	switch {
	case s.Kind == flowcontrolv1.SubjectKindUser && s.User != nil:
		return subject{user, s.User.Name}
	case s.Kind == flowcontrolv1.SubjectKindGroup && s.Group != nil:
		return subject{group, s.Group.Name}
	case s.Kind == flowcontrolv1.SubjectKindServiceAccount && s.ServiceAccount != nil:
		account := s.ServiceAccount
		if account.Name == flowcontrolv1.NameAll {
			return subject{userPrefix, accounts + account.Namespace + ":"}
		}
		return subject{user, accounts + account.Namespace + ":" + account.Name}
	}
	return subject{}
}

// compare orders schemas by precedence, and then by name.
func (s *matcher) compare(o *matcher) int {
	return cmp.Or(cmp.Compare(s.precedence, o.precedence), strings.Compare(s.name, o.name))
}

func (s *matcher) matches(a *authz.Attributes) bool {
	for i := range s.rules {
		if s.rules[i].matches(a) {
			return true
		}
	}
	return false
}

func (r *rule) matches(a *authz.Attributes) bool {
	if !slices.ContainsFunc(r.subjects, func(s subject) bool { return s.matches(a.User) }) {
		return false
	}
	if a.ResourceRequest {
		for i := range r.resources {
			if r.resources[i].match(a) {
				return true
			}
		}
		return false
	}
	for i := range r.paths {
		if r.paths[i].match(a) {
			return true
		}
	}
	return false
}

func (s subject) matches(u *authn.User) bool {
	switch s.is {
	case user:
		return s.name == "*" || s.name == u.Name
	case userPrefix:
		return strings.HasPrefix(u.Name, s.name)
	case group:
		return s.name == "*" || u.In(s.name)
	}
	return false
}

func (r *resources) match(a *authz.Attributes) bool {
	if !r.verbs.has(a.Verb) || !r.groups.has(a.APIGroup) || !r.hasResource(a.Resource, a.Subresource) {
		return false
	}
	if a.Namespace == "" {
		return r.clusterScope
	}
	return r.namespaces.has(a.Namespace)
}

func (r *resources) hasResource(resource, subresource string) bool {
	if subresource == "" {
		return r.resources.has(resource)
	}
	return r.resources.all() || slices.ContainsFunc(r.resources, func(name string) bool {
		before, after, _ := strings.Cut(name, "/")
		return before == resource && after == subresource
	})
}

func (p *paths) match(a *authz.Attributes) bool {
	return p.verbs.has(a.Verb) && slices.ContainsFunc(p.paths, func(path string) bool {
		if path == "*" || path == a.Path {
			return true
		}
		below := strings.TrimSuffix(path, "*")
		if rest, ok := strings.CutPrefix(a.Path, strings.TrimSuffix(below, "/")); ok {
			return strings.HasPrefix(rest, "/")
		}
		return false
	})
}

// distinguisher returns the part of a flow's identity that depends on the request: its user, its
// namespace, or "".
func (s *matcher) distinguisher(a *authz.Attributes) string {
	switch s.by {
	case flowcontrolv1.FlowDistinguisherMethodByUserType:
		return a.User.Name
	case flowcontrolv1.FlowDistinguisherMethodByNamespaceType:
		return a.Namespace
	}
	return ""
}

// flow returns the hash of the flow that a request belongs to.
func (s *matcher) flow(seed maphash.Seed, a *authz.Attributes) uint64 {
	return maphash.String(seed, s.name) ^ bits.RotateLeft64(maphash.String(seed, s.distinguisher(a)), 32)
}
