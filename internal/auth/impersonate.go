package auth

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
)

// Impersonate returns the user whom the Impersonate headers ask to act as, and
// the sender where there are none. It removes the headers. The error is 400 or 403
// for what is malformed or not allowed.
func Impersonate(ctx context.Context, by Authorizer, sender *User, h http.Header) (*User, error) {
	wanted, err := impersonated(h)
	if err != nil || wanted == nil {
		return sender, err
	}
	for _, asked := range impersonationAttributes(sender, wanted) {
		if err := Check(ctx, by, asked); err != nil {
			return nil, err
		}
	}
	wanted.Groups = impersonatedGroups(wanted)
	return wanted, nil
}

// impersonated is the user that the headers describe, as they describe him; nil
// if there are none.
func impersonated(h http.Header) (*User, error) {
	u := &User{
		Name:   h.Get(authenticationv1.ImpersonateUserHeader),
		UID:    h.Get(authenticationv1.ImpersonateUIDHeader),
		Groups: slices.Clone(h[authenticationv1.ImpersonateGroupHeader]),
	}
	var others []string
	for name, values := range h {
		key, ok := strings.CutPrefix(name, authenticationv1.ImpersonateUserExtraHeaderPrefix)
		if !ok {
			continue
		}
		others = append(others, name)
		key = strings.ToLower(key)
		if plain, err := url.PathUnescape(key); err == nil {
			key = plain
		}
		if u.Extra == nil {
			u.Extra = map[string][]string{}
		}
		u.Extra[key] = append(u.Extra[key], values...)
	}
	if u.Name == "" {
		if u.UID != "" || len(u.Groups) > 0 || len(u.Extra) > 0 {
			// Kubernetes prints its own type here.
			return nil, apierrors.NewBadRequest(fmt.Sprintf(
				"requested &user.DefaultInfo{Name:\"\", UID:%q, Groups:%#v, Extra:%#v} without impersonating a user name",
				u.UID, u.Groups, u.Extra))
		}
		return nil, nil
	}
	h.Del(authenticationv1.ImpersonateUserHeader)
	h.Del(authenticationv1.ImpersonateUIDHeader)
	h.Del(authenticationv1.ImpersonateGroupHeader)
	for _, name := range others {
		h.Del(name)
	}
	return u, nil
}

// impersonationAttributes are the single permissions that acting as a user
// takes: one for each thing that the sender wants to be.
func impersonationAttributes(sender, wanted *User) []*Attributes {
	ask := func(group, resource, subresource, namespace, name string) *Attributes {
		return &Attributes{
			User: sender, Verb: "impersonate", ResourceRequest: true,
			APIGroup: group, Resource: resource, Subresource: subresource, Namespace: namespace, Name: name,
		}
	}
	var all []*Attributes
	if namespace, name, ok := serviceAccount(wanted.Name); ok {
		all = append(all, ask("", "serviceaccounts", "", namespace, name))
	} else {
		all = append(all, ask("", "users", "", "", wanted.Name))
	}
	for _, group := range wanted.Groups {
		all = append(all, ask("", "groups", "", "", group))
	}
	for key, values := range wanted.Extra {
		for _, value := range values {
			all = append(all, ask(authenticationv1.GroupName, "userextras", key, "", value))
		}
	}
	if wanted.UID != "" {
		all = append(all, ask(authenticationv1.GroupName, "uids", "", "", wanted.UID))
	}
	return all
}

// impersonatedGroups adds the groups that a user has by being who he is.
func impersonatedGroups(u *User) []string {
	groups := u.Groups
	if namespace, _, ok := serviceAccount(u.Name); ok && len(groups) == 0 {
		groups = []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace}
	}
	if u.Name != Anonymous {
		return withAuthenticated(groups)
	}
	if slices.Contains(groups, Unauthenticated) {
		return groups
	}
	return append(groups, Unauthenticated)
}

// serviceAccount takes the user name of a service account apart.
func serviceAccount(user string) (namespace, name string, ok bool) {
	rest, ok := strings.CutPrefix(user, "system:serviceaccount:")
	if !ok {
		return "", "", false
	}
	namespace, name, ok = strings.Cut(rest, ":")
	if !ok || strings.Contains(name, ":") ||
		len(validation.ValidateNamespaceName(namespace, false)) > 0 ||
		len(validation.ValidateServiceAccountName(name, false)) > 0 {
		return "", "", false
	}
	return namespace, name, true
}
