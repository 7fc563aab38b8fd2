// Package auth answers two questions about a request: who sends it, and may he.
//
// # Who
//
// [Authenticator.Identify] knows three kinds of credentials: a client
// certificate of an authority that is trusted (common name and organizations become user
// and groups), a bearer token that a [TokenAuthenticator] knows, and a connection that was made inside
// the process. Credentials that do not hold are 401 Unauthorized, even where
// another door would be open; who shows none is system:anonymous, or refused ([Anonymity]). [Impersonate] lets
// those who may act as somebody else, with Kubernetes' Impersonate headers.
//
// The admin's token is known here; packages below this one know others: tokenfile those of a table, oidc those of
// OpenID Connect providers, remote those that a webhook knows. [Remember] keeps for a while what they say.
//
// # May he
//
// An [Authorizer] decides. [Basic] lets system:masters do everything, and everybody else
// ask for the health of the server; a [Union] asks it, and others after it: package
// rbac, which decides by roles.
//
// Errors are *errors.StatusError of k8s.io/apimachinery with Kubernetes' words;
// who writes the answer needs to add nothing.
//
// The package keeps nothing but what it knows of a connection and of tokens, starts no
// goroutine, and is safe for concurrent use. Where certificates, tokens and
// kubeconfig files come from is the business of package pki.
package auth

import (
	"context"
	"slices"
)

// A User is who sends a request. It must not be changed once it is in a context.
type User struct {
	Name   string
	UID    string
	Groups []string
	Extra  map[string][]string
}

// Names that Kubernetes gives to users and groups.
const (
	AdminName       = "kubernetes-admin"
	Anonymous       = "system:anonymous"
	Masters         = "system:masters"
	Authenticated   = "system:authenticated"
	Unauthenticated = "system:unauthenticated"
)

// Admin returns the user who may do everything.
func Admin() *User {
	return &User{Name: AdminName, Groups: []string{Masters, Authenticated}}
}

func anonymous() *User {
	return &User{Name: Anonymous, Groups: []string{Unauthenticated}}
}

// GetName, GetUID, GetGroups and GetExtra make a User a user.Info of k8s.io/apiserver.
func (u *User) GetName() string               { return u.Name }
func (u *User) GetUID() string                { return u.UID }
func (u *User) GetGroups() []string           { return u.Groups }
func (u *User) GetExtra() map[string][]string { return u.Extra }

// In says whether the user is in a group.
func (u *User) In(group string) bool { return slices.Contains(u.Groups, group) }

type userKey struct{}

// WithUser returns a context that carries the user.
func WithUser(ctx context.Context, u *User) context.Context {
	return context.WithValue(ctx, userKey{}, u)
}

// UserFrom returns the user that a context carries, nil if none.
func UserFrom(ctx context.Context) *User {
	u, _ := ctx.Value(userKey{}).(*User)
	return u
}
