package rbac

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	"github.com/kapok-dev/kapok/internal/auth"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/state"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/json"
)

var (
	roles               = schema.GroupResource{Group: rbacv1.GroupName, Resource: "roles"}
	clusterRoles        = schema.GroupResource{Group: rbacv1.GroupName, Resource: "clusterroles"}
	roleBindings        = schema.GroupResource{Group: rbacv1.GroupName, Resource: "rolebindings"}
	clusterRoleBindings = schema.GroupResource{Group: rbacv1.GroupName, Resource: "clusterrolebindings"}
)

// index is all roles and bindings, compiled. It does not change.
type index struct {
	made       int64 // the change up to which it knows
	roles      map[object.Key]*role
	bindings   map[object.Key]*binding
	cluster    scope
	namespaces map[string]scope
}

// scope is who has been given something in a namespace, or in the cluster.
type scope map[subjectKey]*subject

type subjectKey struct {
	group bool // else a user
	name  string
}

// A subject is a user or a group in a scope.
type subject struct {
	grants []grant // by name of the binding, and place in it

	once  sync.Once
	table table
}

// A grant is a role that a binding gives to one of its subjects.
type grant struct {
	binding *binding
	place   int   // of the subject in the binding
	role    *role // nil if there is none
}

func (g grant) compare(h grant) int {
	return cmp.Or(strings.Compare(g.binding.key.Name, h.binding.key.Name), cmp.Compare(g.place, h.place))
}

// A role is a Role or a ClusterRole, decoded when its rules are needed.
type role struct {
	object *object.Object
	once   sync.Once
	list   []rbacv1.PolicyRule
}

// rules returns what the role gives; nothing if it cannot be read.
func (r *role) rules() []rbacv1.PolicyRule {
	r.once.Do(func() {
		var decoded struct {
			Rules []rbacv1.PolicyRule `json:"rules"`
		}
		if json.UnmarshalCaseSensitivePreserveInts(r.object.Raw, &decoded) == nil {
			r.list = decoded.Rules
		}
	})
	return r.list
}

// A binding is a RoleBinding or a ClusterRoleBinding.
type binding struct {
	object   *object.Object
	key      object.Key
	ref      rbacv1.RoleRef
	subjects []rbacv1.Subject
}

func newBinding(o *object.Object) *binding {
	var decoded struct {
		Subjects []rbacv1.Subject `json:"subjects"`
		RoleRef  rbacv1.RoleRef   `json:"roleRef"`
	}
	if json.UnmarshalCaseSensitivePreserveInts(o.Raw, &decoded) != nil {
		decoded.Subjects = nil // who cannot be read gives nothing
	}
	return &binding{object: o, key: o.Key, ref: decoded.RoleRef, subjects: decoded.Subjects}
}

// newIndex compiles what is stored now, and takes over from the last index what has not changed.
func newIndex(s *state.State, last *index) *index {
	x := &index{
		roles:      make(map[object.Key]*role, len(last.roles)),
		bindings:   make(map[object.Key]*binding, len(last.bindings)),
		cluster:    make(scope, len(last.cluster)),
		namespaces: make(map[string]scope, len(last.namespaces)),
	}
	for _, resource := range []schema.GroupResource{clusterRoles, roles} {
		for o := range s.Snapshot(resource).All("") {
			r := last.roles[o.Key]
			if r == nil || r.object != o {
				r = &role{object: o}
			}
			x.roles[o.Key] = r
		}
	}
	for _, resource := range []schema.GroupResource{clusterRoleBindings, roleBindings} {
		for o := range s.Snapshot(resource).All("") {
			b := last.bindings[o.Key]
			if b == nil || b.object != o {
				b = newBinding(o)
			}
			x.bindings[o.Key] = b
			x.grant(b)
		}
	}
	x.cluster.keep(last.cluster)
	for namespace, sc := range x.namespaces {
		sc.keep(last.namespaces[namespace])
	}
	return x
}

// grant gives the role of a binding to its subjects. Bindings come by namespace and name.
func (x *index) grant(b *binding) {
	sc := x.cluster
	if b.key.Resource == roleBindings {
		if sc = x.namespaces[b.key.Namespace]; sc == nil {
			sc = scope{}
			x.namespaces[b.key.Namespace] = sc
		}
	}
	role := x.roles[roleKey(b.ref, b.key.Namespace)]
	for i := range b.subjects {
		key, ok := keyOf(&b.subjects[i], b.key.Namespace)
		if !ok {
			continue
		}
		if sc[key] == nil {
			sc[key] = &subject{}
		}
		sc[key].grants = append(sc[key].grants, grant{binding: b, place: i, role: role})
	}
}

// keep puts the subjects of a scope of before, with their tables, in the place of those that are given the same.
func (s scope) keep(last scope) {
	for key, sub := range s {
		if old := last[key]; old != nil && slices.Equal(old.grants, sub.grants) {
			s[key] = old
		}
	}
}

// keyOf is under which key a subject stands; ok is false for one that is nobody.
func keyOf(s *rbacv1.Subject, namespace string) (_ subjectKey, ok bool) {
	switch s.Kind {
	case rbacv1.UserKind:
		return subjectKey{name: s.Name}, true
	case rbacv1.GroupKind:
		return subjectKey{group: true, name: s.Name}, true
	case rbacv1.ServiceAccountKind:
		if s.Namespace != "" {
			namespace = s.Namespace
		}
		return subjectKey{name: "system:serviceaccount:" + namespace + ":" + s.Name}, namespace != ""
	}
	return subjectKey{}, false
}

// roleKey is the key of the role that a binding in a namespace refers to; one at which nothing is, if its kind is none.
func roleKey(ref rbacv1.RoleRef, namespace string) object.Key {
	switch ref.Kind {
	case "ClusterRole":
		return object.Key{Resource: clusterRoles, Name: ref.Name}
	case "Role":
		return object.Key{Resource: roles, Namespace: namespace, Name: ref.Name}
	}
	return object.Key{}
}

// local is the scope of a namespace, nil for none.
func (x *index) local(namespace string) scope {
	if namespace == "" {
		return nil
	}
	return x.namespaces[namespace]
}

// of calls visit for a user and each of his groups, as far as they have been given something.
func (s scope) of(u *auth.User, visit func(*subject)) {
	if len(s) == 0 {
		return
	}
	if sub := s[subjectKey{name: u.Name}]; sub != nil {
		visit(sub)
	}
	for i, group := range u.Groups {
		if sub := s[subjectKey{group: true, name: group}]; sub != nil && !slices.Contains(u.Groups[:i], group) {
			visit(sub)
		}
	}
}

// allows returns the first grant by which a question is answered with yes, nil if there is none.
func (s scope) allows(q *question) *entry {
	var first *entry
	s.of(q.user, func(sub *subject) {
		if e := sub.compiled().allows(q); e != nil && (first == nil || e.grant.compare(first.grant) < 0) {
			first = e
		}
	})
	return first
}

// grants returns what a user has been given in a scope, each binding once, in their order.
func (s scope) grants(u *auth.User) []grant {
	var all []grant
	s.of(u, func(sub *subject) { all = append(all, sub.grants...) })
	slices.SortFunc(all, grant.compare)
	return slices.CompactFunc(all, func(a, b grant) bool { return a.binding == b.binding })
}
