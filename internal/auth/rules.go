package auth

import (
	"context"

	rbacv1 "k8s.io/api/rbac/v1"
)

// A RuleResolver lists what users may do. Lists are for reading only. Implementations are safe for concurrent use.
type RuleResolver interface {
	// RulesFor returns the rules of a user in a namespace, with those of the cluster; with namespace "" these only. The
	// error says what is missing in the list, incomplete that there may be more than can be listed.
	RulesFor(ctx context.Context, u *User, namespace string) (rules []rbacv1.PolicyRule, incomplete bool, err error)
}

// Roles knows what RBAC gives to whom, whether or not access is decided by it.
type Roles interface {
	RuleResolver
	// RulesOf returns the rules of the role that a binding in a namespace refers to; namespace is "" for one of the
	// cluster. The error is NotFound if there is no such role.
	RulesOf(ref rbacv1.RoleRef, namespace string) ([]rbacv1.PolicyRule, error)
}
