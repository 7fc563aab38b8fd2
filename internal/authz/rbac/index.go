package rbac

import (
	"cmp"
	"iter"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/kapok-dev/kapok/internal/authn"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/state"

	"github.com/tidwall/btree"
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

// An index contains all roles and bindings at one revision. fold returns it, and it is immutable
// from then on: its trees are copy-on-write, and share unchanged parts with those of the previous
// index.
//
// Grants refer to roles by name, so that a change of a role is a change in one place, however many
// bindings refer to it.
type index struct {
	cluster    *scope
	namespaces *btree.Map[string, *scope] // namespaces with roles or bindings

	work work // cost of making it, for tests
}

// A scope contains the roles and bindings of a namespace, or of the cluster.
type scope struct {
	namespace string // "" for the cluster
	roles     *btree.Map[string, *role]
	bindings  *btree.Map[string, *binding]
	grants    *btree.BTreeG[grant] // ordered by subject, role, binding, place
	version   *version             // unique to this scope
}

// A version is the identity of a scope. It does not keep the scope in memory.
type version struct{ _ byte }

// work counts the changed objects and grants of one step.
type work struct{ objects, grants int }

type subjectKey struct {
	group bool // else a user
	name  string
}

func (k subjectKey) compare(l subjectKey) int {
	if k.group != l.group {
		if k.group {
			return 1
		}
		return -1
	}
	return strings.Compare(k.name, l.name)
}

// A roleName is the name of a role as seen from a scope.
type roleName struct {
	kind roleKind
	name string
}

type roleKind uint8

const (
	unknownKind roleKind = iota // matches no role
	localRole
	clusterRole
)

func nameOf(ref *rbacv1.RoleRef) roleName {
	switch ref.Kind {
	case "ClusterRole":
		return roleName{clusterRole, ref.Name}
	case "Role":
		return roleName{localRole, ref.Name}
	}
	return roleName{unknownKind, ref.Name}
}

// A grant gives a role to one of the subjects of a binding.
type grant struct {
	to      subjectKey
	role    roleName
	binding *binding
	place   int // index of the subject in the binding
}

// less orders the grants of a scope. A grant without a binding precedes all others of its subject
// and role.
func (g grant) less(h grant) bool {
	if c := g.to.compare(h.to); c != 0 {
		return c < 0
	}
	if g.role.kind != h.role.kind {
		return g.role.kind < h.role.kind
	}
	if c := strings.Compare(g.role.name, h.role.name); c != 0 {
		return c < 0
	}
	if g.binding == nil || h.binding == nil {
		return g.binding == nil && h.binding != nil
	}
	return g.compare(h) < 0
}

// compare orders the grants of a scope by binding and place.
func (g grant) compare(h grant) int {
	return cmp.Or(strings.Compare(g.binding.key.Name, h.binding.key.Name), cmp.Compare(g.place, h.place))
}

// A binding is a RoleBinding or a ClusterRoleBinding.
type binding struct {
	key      object.Key
	ref      rbacv1.RoleRef
	subjects []rbacv1.Subject
	reasons  []atomic.Pointer[string] // of the grants, by place; set when first used
}

func newBinding(o *object.Object) *binding {
	var decoded struct {
		Subjects []rbacv1.Subject `json:"subjects"`
		RoleRef  rbacv1.RoleRef   `json:"roleRef"`
	}
	if json.UnmarshalCaseSensitivePreserveInts(o.Raw, &decoded) != nil {
		decoded.Subjects = nil // an invalid binding grants nothing
	}
	return &binding{
		key: o.Key, ref: decoded.RoleRef, subjects: decoded.Subjects, reasons: make([]atomic.Pointer[string], len(decoded.Subjects)),
	}
}

// same reports whether two versions of a binding, each of which may be nil, grant the same.
func (b *binding) same(c *binding) bool {
	return b != nil && c != nil && b.ref == c.ref && slices.Equal(b.subjects, c.subjects)
}

// degree is that of the trees: a step copies a few nodes with up to twice as many items.
const degree = 16

func newScope(namespace string) *scope {
	return &scope{
		namespace: namespace,
		roles:     btree.NewMap[string, *role](degree),
		bindings:  btree.NewMap[string, *binding](degree),
		grants:    btree.NewBTreeGOptions(grant.less, btree.Options{NoLocks: true, Degree: degree}),
		version:   new(version),
	}
}

func (s *scope) copy() *scope {
	return &scope{namespace: s.namespace, roles: s.roles.Copy(), bindings: s.bindings.Copy(), grants: s.grants.Copy(), version: new(version)}
}

// fold returns the index with the given changes. Its cost depends on the changed objects and the
// subjects of changed bindings, and only logarithmically on the number of all others.
func fold(last *index, c *state.Changes) *index {
	if last == nil {
		last = &index{cluster: newScope(""), namespaces: btree.NewMap[string, *scope](degree)}
	}
	s := &step{index: &index{cluster: last.cluster, namespaces: last.namespaces.Copy()}, own: map[string]*scope{}}
	for key, o := range c.Objects() {
		s.work.objects++
		sc := s.scope(key.Namespace)
		switch key.Resource {
		case roles, clusterRoles:
			sc.setRole(key.Name, o)
		case roleBindings, clusterRoleBindings:
			s.work.grants += sc.setBinding(key.Name, o)
		}
	}
	for namespace, sc := range s.own {
		if namespace != "" && sc.roles.Len()+sc.bindings.Len() == 0 {
			s.namespaces.Delete(namespace)
		}
	}
	return s.index
}

// A step makes an index.
type step struct {
	*index
	own map[string]*scope // scopes that no other index shares, by namespace
}

// scope returns a scope that the step may modify: that of a namespace, or of the cluster for "".
func (s *step) scope(namespace string) *scope {
	if sc := s.own[namespace]; sc != nil {
		return sc
	}
	var sc *scope
	if namespace == "" {
		sc = s.cluster.copy()
		s.cluster = sc
	} else {
		if last := s.local(namespace); last != nil {
			sc = last.copy()
		} else {
			sc = newScope(namespace)
		}
		s.namespaces.Set(namespace, sc)
	}
	s.own[namespace] = sc
	return sc
}

func (s *scope) setRole(name string, o *object.Object) {
	if o == nil {
		s.roles.Delete(name)
	} else {
		s.roles.Set(name, &role{object: o})
	}
}

// setBinding sets or removes a binding, and returns the number of changed grants.
func (s *scope) setBinding(name string, o *object.Object) (grants int) {
	last, _ := s.bindings.Get(name)
	var next *binding
	if o != nil {
		next = newBinding(o)
	}
	if next.same(last) {
		return 0
	}
	if last != nil {
		s.bindings.Delete(name)
		for g := range last.grants() {
			s.grants.Delete(g)
			grants++
		}
	}
	if next != nil {
		s.bindings.Set(name, next)
		for g := range next.grants() {
			s.grants.Set(g)
			grants++
		}
	}
	return grants
}

// grants yields the grants of a binding.
func (b *binding) grants() iter.Seq[grant] {
	return func(yield func(grant) bool) {
		for i := range b.subjects {
			to, ok := keyOf(&b.subjects[i], b.key.Namespace)
			if ok && !yield(grant{to: to, role: nameOf(&b.ref), binding: b, place: i}) {
				return
			}
		}
	}
}

// keyOf returns the key of a subject; ok is false if it matches no user.
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

// local returns the scope of a namespace; nil if it is empty.
func (x *index) local(namespace string) *scope {
	if namespace == "" {
		return nil
	}
	sc, _ := x.namespaces.Get(namespace)
	return sc
}

// role returns the role with a name in a scope, which may be nil; nil if there is none.
func (x *index) role(s *scope, name roleName) *role {
	var r *role
	switch {
	case name.kind == clusterRole:
		r, _ = x.cluster.roles.Get(name.name)
	case name.kind == localRole && s != nil && s.namespace != "":
		r, _ = s.roles.Get(name.name)
	}
	return r
}

// of calls visit for a user and each of its groups once, until visit returns false.
func of(u *authn.User, visit func(subjectKey) bool) {
	if !visit(subjectKey{name: u.Name}) {
		return
	}
	var seen map[string]bool // for many groups: linear searches would be quadratic in the number of groups, which a client chooses
	if len(u.Groups) > 32 {
		seen = make(map[string]bool, len(u.Groups))
	}
	for i, group := range u.Groups {
		repeated := seen[group] || seen == nil && slices.Contains(u.Groups[:i], group)
		if !repeated && !visit(subjectKey{group: true, name: group}) {
			return
		}
		if seen != nil {
			seen[group] = true
		}
	}
}

// allows returns the first grant in a scope, which may be nil, that allows a request: those of the
// user before those of its groups, and in order of role names. ok is false if there is none; broken
// then reports whether a granted role is missing. It walks the roles of a subject; after the first
// few, it uses the subject's table if there is one.
func (x *index) allows(s *scope, q *question, tables *subjects) (first grant, ok, broken bool) {
	if s == nil {
		return grant{}, false, false
	}
	of(q.user, func(to subjectKey) bool {
		roles := 0
		s.each(to, func(g grant) bool {
			if roles++; roles == few+1 && tables != nil {
				if t := tables.table(x, s, to); t != nil {
					first, ok = t.first(q)
					broken = broken || t.broken
					return false
				}
			}
			if r := x.role(s, g.role); r == nil {
				broken = true
			} else if r.compiled().allows(q) {
				first, ok = g, true
			}
			return !ok
		})
		return !ok
	})
	if ok {
		first = s.named(q.user, first)
	}
	return first, ok, broken
}

// named returns the first grant to a user in the binding of the given grant, because Kubernetes
// checks the subjects of a binding in order.
func (s *scope) named(u *authn.User, first grant) grant {
	if first.place == 0 {
		return first
	}
	of(u, func(to subjectKey) bool {
		s.grants.Ascend(grant{to: to, role: first.role, binding: first.binding}, func(g grant) bool {
			if g.to == to && g.binding == first.binding && g.place < first.place {
				first = g
			}
			return false
		})
		return true
	})
	return first
}

// each calls visit with the first grant of each role of a subject, until visit returns false.
func (s *scope) each(to subjectKey, visit func(grant) bool) {
	const passed = 8 // grants of the same role after which a search for the next role is faster
	var last grant
	for from, more := (grant{to: to}), true; more; {
		more = false
		same := 0
		s.grants.Ascend(from, func(g grant) bool {
			switch {
			case g.to != to:
				return false
			case last.binding == nil || g.role != last.role:
				last, same = g, 0
				return visit(g)
			}
			same++
			more = same > passed
			return !more
		})
		from = grant{to: to, role: last.role}
		from.role.name += "\x00" // the next possible name
	}
}

// granted returns the grants of a user in a scope, which may be nil: one for each binding, in order
// of binding names.
func (s *scope) granted(u *authn.User) []grant {
	if s == nil {
		return nil
	}
	var all []grant
	of(u, func(to subjectKey) bool {
		s.grants.Ascend(grant{to: to}, func(g grant) bool {
			if g.to == to {
				all = append(all, g)
			}
			return g.to == to
		})
		return true
	})
	slices.SortFunc(all, grant.compare)
	return slices.CompactFunc(all, func(a, b grant) bool { return a.binding == b.binding })
}
