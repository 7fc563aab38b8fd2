// Package authn authenticates requests.
//
// [Authenticator.Identify] accepts three kinds of credentials, in this order: a client certificate
// of a trusted authority (common name and organizations become user and groups), a bearer token
// that a [TokenAuthenticator] accepts, and a connection inside the process. A valid certificate or
// token makes up for an invalid one of the other kind; otherwise invalid credentials are 401
// Unauthorized, also on a connection inside the process. A request without credentials is from
// system:anonymous, or is rejected ([Anonymity]).
//
// The admin's token is checked in this package. Packages below it check others: tokenfile those in
// a file, oidc those of OpenID Connect providers, remote calls a webhook, and serviceaccount those
// of service accounts. [Remember] caches results.
//
// Errors are *errors.StatusError of k8s.io/apimachinery with Kubernetes' messages.
//
// The package has no state except for connections and cached tokens. It starts no goroutine, and is
// safe for concurrent use. Certificates, tokens and kubeconfig files come from package pki.
package authn

import (
	"context"
	"slices"
)

// A User sends requests. It must not be changed once it is in a context.
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

// KubeletClient is the user name in the client certificate that the server presents to kubelets,
// and KubeletAdmins its group. Only kubelets accept this certificate. The server rejects it, so
// that a node which directs such a request back to the server does not gain the rights of an admin.
const (
	KubeletClient = "kube-apiserver-kubelet-client"
	KubeletAdmins = "kapok:kubelet-api-admin"
)

// Admin returns the user who is never denied.
func Admin() *User {
	return &User{Name: AdminName, Groups: []string{Masters, Authenticated}}
}

func anonymous() *User {
	return &User{Name: Anonymous, Groups: []string{Unauthenticated}}
}

// GetName, GetUID, GetGroups and GetExtra make a User a user.Info of k8s.io/apiserver.
func (u *User) GetName() string { return u.Name }

// GetUID returns the uid of the user.
func (u *User) GetUID() string { return u.UID }

// GetGroups returns the groups of the user.
func (u *User) GetGroups() []string { return u.Groups }

// GetExtra returns the extra attributes of the user.
func (u *User) GetExtra() map[string][]string { return u.Extra }

// An Info is a user, for packages and libraries that do not know User.
type Info interface {
	// GetName returns the name, which is unique among all active users.
	GetName() string
	// GetUID returns the uid; empty if the authenticator knows none.
	GetUID() string
	// GetGroups returns the groups.
	GetGroups() []string
	// GetExtra returns further attributes, such as scopes, by their names.
	GetExtra() map[string][]string
}

// Of returns the User of an Info; nil for nil.
func Of(u Info) *User {
	switch u := u.(type) {
	case nil:
		return nil
	case *User:
		return u
	}
	return &User{Name: u.GetName(), UID: u.GetUID(), Groups: u.GetGroups(), Extra: u.GetExtra()}
}

// In reports whether the user is in a group.
func (u *User) In(group string) bool { return slices.Contains(u.Groups, group) }

type userKey struct{}

// WithUser returns a context that carries the user.
func WithUser(ctx context.Context, u *User) context.Context {
	return context.WithValue(ctx, userKey{}, u)
}

// UserFrom returns the user that a context carries; nil if there is none.
func UserFrom(ctx context.Context) *User {
	u, _ := ctx.Value(userKey{}).(*User)
	return u
}
