// Package users provides built-in kinds with token authentication, authorization and RBAC rules.
// [resource.Store] does not depend on these.
package users

import (
	"context"

	"github.com/kapok-dev/kapok/internal/authn"
	"github.com/kapok-dev/kapok/internal/authn/serviceaccount"
	"github.com/kapok-dev/kapok/internal/authz"
	"github.com/kapok-dev/kapok/internal/resource"
)

// Users is given to kinds as [resource.Definition].Given. Its fields are set before the first
// request and not changed afterwards. Every field may be left zero.
type Users struct {
	// Authorizer decides what else the user of a request may do, for example whether a role grants
	// more than its author holds. Nil allows everything.
	Authorizer authz.Authorizer
	// Roles returns the rules that users hold. Nil knows no rules.
	Roles authz.Roles
	// Tokens authenticates the tokens of token reviews. Nil authenticates none.
	Tokens authn.TokenAuthenticator
	// Accounts issues tokens of service accounts. Nil issues none.
	Accounts *serviceaccount.Issuer
}

// Of returns the Users of the kind of a request; never nil.
func Of(r *resource.Request) *Users {
	if u, ok := r.Definition.Given.(*Users); ok && u != nil {
		return u
	}
	return &Users{}
}

// Permit returns nil if the user of a request may also do what a asks for, and 403 Forbidden if
// not. It sets a.User. The server itself is permitted everything.
func (u *Users) Permit(ctx context.Context, r *resource.Request, a *authz.Attributes) error {
	return authz.Permit(ctx, u.Authorizer, r.User, a)
}

// PermitCreate is [resource.Gate].PermitCreate.
func (u *Users) PermitCreate(ctx context.Context, r *resource.Request) error {
	gv := r.Definition.GroupVersion(r.Version)
	return u.Permit(ctx, r, &authz.Attributes{
		Verb: "create", ResourceRequest: true, APIGroup: gv.Group, APIVersion: gv.Version, Resource: r.Definition.Plural,
		Namespace: r.Namespace, Name: r.Name,
	})
}
