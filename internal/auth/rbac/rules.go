package rbac

import (
	"context"
	"fmt"
	"strings"

	"github.com/kapok-dev/kapok/internal/auth"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
)

// RulesFor implements auth.RuleResolver.
func (a *Authorizer) RulesFor(_ context.Context, u *auth.User, namespace string) ([]rbacv1.PolicyRule, bool, error) {
	rules, err := a.rulesFor(u, namespace, listed)
	return rules, false, err
}

// Held implements auth.Roles.
func (a *Authorizer) Held(u *auth.User, namespace string, as schema.GroupResource) ([]rbacv1.PolicyRule, error) {
	return a.rulesFor(u, namespace, func(rbacv1.RoleRef) schema.GroupResource { return as })
}

func (a *Authorizer) rulesFor(u *auth.User, namespace string, as naming) ([]rbacv1.PolicyRule, error) {
	x := a.index()
	var rules []rbacv1.PolicyRule
	var missing []error
	for _, g := range append(x.cluster.grants(u), x.local(namespace).grants(u)...) {
		if g.role == nil {
			missing = append(missing, noRole(g.binding.ref, as))
			continue
		}
		rules = append(rules, g.role.rules()...)
	}
	return rules, aggregate(missing)
}

// RulesOf implements auth.Roles.
func (a *Authorizer) RulesOf(ref rbacv1.RoleRef, namespace string, as schema.GroupResource) ([]rbacv1.PolicyRule, error) {
	r := a.index().roles[roleKey(ref, namespace)]
	if r == nil {
		return nil, noRole(ref, func(rbacv1.RoleRef) schema.GroupResource { return as })
	}
	return r.rules(), nil
}

// missing says which roles there are not that somebody should have; "" if there are all.
func (x *index) missing(u *auth.User, local scope) string {
	broken := false
	find := func(s *subject) { broken = broken || len(s.compiled().broken) > 0 }
	x.cluster.of(u, find)
	local.of(u, find)
	if !broken {
		return ""
	}
	var missing []error
	for _, g := range append(x.cluster.grants(u), local.grants(u)...) {
		if g.role == nil {
			missing = append(missing, noRole(g.binding.ref, listed))
		}
	}
	return fmt.Sprintf("RBAC: %v", aggregate(missing))
}

// naming says of what resource a role is that is not there.
type naming func(rbacv1.RoleRef) schema.GroupResource

// listed is the naming of Kubernetes' listers: in the singular.
func listed(ref rbacv1.RoleRef) schema.GroupResource {
	return schema.GroupResource{Group: rbacv1.GroupName, Resource: strings.ToLower(ref.Kind)}
}

func noRole(ref rbacv1.RoleRef, as naming) error {
	if ref.Kind != "Role" && ref.Kind != "ClusterRole" {
		return fmt.Errorf("unsupported role reference kind: %q", ref.Kind)
	}
	return apierrors.NewNotFound(as(ref), ref.Name)
}

// aggregate joins errors in Kubernetes' way, [a, b]; nil if there are none.
func aggregate(errs []error) error {
	if len(errs) == 0 {
		return nil
	}
	return utilerrors.NewAggregate(errs)
}
