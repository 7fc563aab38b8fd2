package auth

import (
	"context"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
)

// A RuleResolver lists what users may do. Lists are for reading only. Implementations are safe for concurrent use.
type RuleResolver interface {
	// RulesFor returns the rules of a user in a namespace, with those of the cluster; with namespace "" these only. The
	// error says what is missing in the list, incomplete that there may be more than can be listed.
	RulesFor(ctx context.Context, u *User, namespace string) (rules []rbacv1.PolicyRule, incomplete bool, err error)
}

// RulesFor implements RuleResolver: it joins what those of the union list that can list anything.
func (u Union) RulesFor(ctx context.Context, user *User, namespace string) (rules []rbacv1.PolicyRule, incomplete bool, err error) {
	var errs []error
	for _, one := range u {
		r, ok := one.(RuleResolver)
		if !ok {
			continue
		}
		more, some, err := r.RulesFor(ctx, user, namespace)
		rules, incomplete = append(rules, more...), incomplete || some
		if err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) == 0 {
		return rules, incomplete, nil
	}
	return rules, incomplete, utilerrors.NewAggregate(errs)
}

// Roles knows what RBAC gives to whom, whether or not access is decided by it. Lists are for reading only.
type Roles interface {
	// Held returns the rules of a user in a namespace, with those of the cluster; with namespace "" these only. The error
	// names roles that are not there, as if they were of the given resource: that of the request, as Kubernetes does.
	Held(u *User, namespace string, as schema.GroupResource) ([]rbacv1.PolicyRule, error)
	// RulesOf returns the rules of the role that a binding in a namespace refers to; namespace is "" for one of the
	// cluster. The error is NotFound if there is no such role, in the words of Held.
	RulesOf(ref rbacv1.RoleRef, namespace string, as schema.GroupResource) ([]rbacv1.PolicyRule, error)
}
