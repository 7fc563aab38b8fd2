// Package rbac decides by Kubernetes' roles and bindings who may do what.
//
// An [Authorizer] reads the objects of rbac.authorization.k8s.io from the state of a store. The first question after a
// write of one of them compiles them anew into an index; so what a write gives or takes away counts from the next
// request on. Everybody who asks in between shares the index, which does not change.
//
// # The index
//
//	index   subjects of cluster role bindings, and by namespace those of role bindings
//	subject a user or a group, and the grants that name it: binding, place in the binding, role
//	table   of a subject, made when it is asked about first: its rules by group and resource, and by path
//
// A question looks up the user and each of his groups, at most twice (cluster, namespace), and in each table the
// few places at which a rule for the resource can stand. So what it costs does not depend on how many roles and bindings there are,
// nor on whether the answer is yes. Roles are decoded when a table first needs them, and what has not changed is taken
// over from the index before.
//
// [Covers] and [Missing] answer the question behind escalation: whether somebody has what he wants to give away. The
// sources are k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac and pkg/registry/rbac/validation, whose order of
// bindings is that of a Go map; here it is that of their names.
//
// The package starts no goroutine. An Authorizer has one lock, held while the index is made.
package rbac

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/kapok-dev/kapok/internal/auth"
	"github.com/kapok-dev/kapok/internal/state"

	rbacv1 "k8s.io/api/rbac/v1"
)

// An Authorizer decides by the roles and bindings in a state. It implements [auth.Authorizer] and [auth.Roles]. Make one
// with [New].
type Authorizer struct {
	state   *state.State
	feed    *state.Feed
	changes atomic.Int64 // of roles and bindings, so far

	current atomic.Pointer[index]
	making  sync.Mutex // held while an index is made
}

// New returns an Authorizer. Its index is made when it is asked first.
func New(s *state.State) *Authorizer {
	a := &Authorizer{state: s}
	a.changes.Store(1)
	a.current.Store(&index{})
	// The feed keeps nothing: it is here to be asked in the moment of a change, before anybody hears of it.
	a.feed = s.Feed(func(e *state.Event) bool {
		if e.Last().Key.Resource.Group == rbacv1.GroupName {
			a.changes.Add(1)
		}
		return false
	})
	return a
}

// Close ends what the Authorizer hears of changes. Nobody may ask it from then on.
func (a *Authorizer) Close() { a.feed.Close() }

// AuthorizerName implements auth.Named.
func (a *Authorizer) AuthorizerName() string { return "rbac" }

// Authorize implements auth.Authorizer. It allows, or has no opinion.
func (a *Authorizer) Authorize(_ context.Context, asked *auth.Attributes) (auth.Decision, string, error) {
	if asked.User == nil {
		return auth.NoOpinion, "", nil
	}
	x := a.index()
	q := newQuestion(asked)
	if g := x.cluster.allows(&q); g != nil {
		return auth.Allow, g.reason, nil
	}
	local := x.local(asked.Namespace)
	if g := local.allows(&q); g != nil {
		return auth.Allow, g.reason, nil
	}
	return auth.NoOpinion, x.missing(asked.User, local), nil
}

// index returns what is so now.
func (a *Authorizer) index() *index {
	x := a.current.Load()
	if x.made == a.changes.Load() {
		return x
	}
	a.making.Lock()
	defer a.making.Unlock()
	x = a.current.Load()
	// Changes are counted before they can be seen: what comes after the count is either in the snapshots or counted again.
	// What comes while the snapshots are taken may be in some of them: a role as it was, and a binding to what it is now. So
	// they are taken again, but for who writes all the time.
	const tries = 10
	for try := 0; x.made != a.changes.Load() && try < tries; try++ {
		now := a.changes.Load()
		x = newIndex(a.state, x)
		x.made = now
	}
	a.current.Store(x)
	return x
}
