package authz

import (
	"context"

	"github.com/kapok-dev/kapok/internal/authn"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
)

// A RuleResolver lists the permissions of users. Callers must not change the lists. Implementations
// are safe for concurrent use.
type RuleResolver interface {
	// RulesFor returns the rules of a user in a namespace and in the cluster; only the latter if
	// namespace is "". err names rules that are missing in the list; incomplete is true if there
	// may be others that cannot be listed.
	RulesFor(ctx context.Context, u *authn.User, namespace string) (rules []rbacv1.PolicyRule, incomplete bool, err error)
}

// RulesFor implements RuleResolver: it joins the lists of all RuleResolvers in the union.
func (u Union) RulesFor(ctx context.Context, user *authn.User, namespace string) (rules []rbacv1.PolicyRule, incomplete bool, err error) {
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

// Roles lists the permissions that RBAC grants, whether or not the server uses RBAC for
// authorization. Callers must not change the lists.
type Roles interface {
	// Held returns the rules of a user in a namespace and in the cluster; only the latter if
	// namespace is "". The error names missing roles, as objects of the given resource: as in
	// Kubernetes, that is the resource of the request.
	Held(u *authn.User, namespace string, as schema.GroupResource) ([]rbacv1.PolicyRule, error)
	// RulesOf returns the rules of the role that a binding refers to. namespace is that of the
	// binding, or "" for one of the cluster. If there is no such role, the error is NotFound, as in
	// Held.
	RulesOf(ref rbacv1.RoleRef, namespace string, as schema.GroupResource) ([]rbacv1.PolicyRule, error)
}
