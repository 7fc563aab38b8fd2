// Package rbac authorizes requests by Kubernetes' roles and bindings.
//
// An [Authorizer] keeps an index of the objects of rbac.authorization.k8s.io in the state of a
// store. The first request after a write updates the index, so that granted and revoked permissions
// are in effect from the next request on. An index is immutable; the next one shares unchanged
// parts with it.
//
// # The index
//
//	index   the cluster and, by name, the namespaces that have roles or bindings
//	scope   of the cluster or a namespace: its roles, its bindings, its grants
//	grant   a subject (a user or a group), the name of a role, the binding, and the place in it
//	table   the rules of a role by group and resource, and by path; made on first use
//
// A request looks up the user and each of its groups in two scopes, cluster and namespace, and, in
// the table of each role that is granted there, the few places with rules for the resource. Its
// cost depends on the number of roles that are granted to the user in these scopes, and only
// logarithmically on all others. A subject with more than a few roles gets a table of all of them
// after some requests, and then their number does not matter.
//
// The cost of a write for the next request depends on the size of the written object only, because
// grants refer to roles by name. So a user who writes roles or bindings all the time slows down
// other users no more than by other writes; but users with many roles in the same namespace get no
// tables there meanwhile.
//
// [Covers] and [Missing] serve the escalation check: whether a user has the permissions that a
// write would grant. The behaviour is that of k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac and
// pkg/registry/rbac/validation, except that bindings are in the order of their names, and not in
// that of a Go map.
//
// The package starts no goroutine. See [state.Derived] for how the index follows the state.
package rbac

import (
	"context"

	"github.com/kapok-dev/kapok/internal/authz"
	"github.com/kapok-dev/kapok/internal/state"
)

// An Authorizer decides by the roles and bindings in a state. It implements [authz.Authorizer] and
// [authz.Roles]. Make one with [New].
type Authorizer struct {
	index  *state.Derived[*index]
	tables *subjects // nil: roles are always walked
}

// New returns an Authorizer. The first request makes its index.
func New(s *state.State) *Authorizer {
	return &Authorizer{state.Derive(s, fold, clusterRoles, roles, clusterRoleBindings, roleBindings), new(subjects)}
}

// AuthorizerName implements authz.Named.
func (a *Authorizer) AuthorizerName() string { return "rbac" }

// Authorize implements authz.Authorizer. It returns Allow or NoOpinion.
func (a *Authorizer) Authorize(_ context.Context, asked *authz.Attributes) (authz.Decision, string, error) {
	if asked.User == nil {
		return authz.NoOpinion, "", nil
	}
	x := a.index.Load()
	q := newQuestion(asked)
	g, ok, broken := x.allows(x.cluster, &q, a.tables)
	if ok {
		return authz.Allow, g.reason(), nil
	}
	local := x.local(asked.Namespace)
	g, ok, brokenLocally := x.allows(local, &q, a.tables)
	if ok {
		return authz.Allow, g.reason(), nil
	}
	if broken || brokenLocally {
		return authz.NoOpinion, x.missing(asked.User, local), nil
	}
	if q.ownPath() {
		return authz.NoOpinion, "wildcards do not match this path: a rule must name it and the verb", nil
	}
	return authz.NoOpinion, "", nil
}
