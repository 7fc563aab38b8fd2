package rbac

import (
	"context"
	"fmt"
	"strings"

	"github.com/kapok-dev/kapok/internal/authn"
	"github.com/kapok-dev/kapok/internal/causes"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// RulesFor implements authz.RuleResolver.
func (a *Authorizer) RulesFor(_ context.Context, u *authn.User, namespace string) ([]rbacv1.PolicyRule, bool, error) {
	rules, err := a.rulesFor(u, namespace, listed)
	return rules, false, err
}

// Held implements authz.Roles.
func (a *Authorizer) Held(u *authn.User, namespace string, as schema.GroupResource) ([]rbacv1.PolicyRule, error) {
	return a.rulesFor(u, namespace, func(rbacv1.RoleRef) schema.GroupResource { return as })
}

func (a *Authorizer) rulesFor(u *authn.User, namespace string, as naming) ([]rbacv1.PolicyRule, error) {
	x := a.index.Load()
	local := x.local(namespace)
	var rules []rbacv1.PolicyRule
	var missing []error
	for _, in := range [...]*scope{x.cluster, local} {
		for _, g := range in.granted(u) {
			if r := x.role(in, g.role); r != nil {
				rules = append(rules, r.rules()...)
			} else {
				missing = append(missing, noRole(g.binding.ref, as))
			}
		}
	}
	return rules, causes.Errors(missing)
}

// RulesOf implements authz.Roles.
func (a *Authorizer) RulesOf(ref rbacv1.RoleRef, namespace string, as schema.GroupResource) ([]rbacv1.PolicyRule, error) {
	x := a.index.Load()
	r := x.role(x.local(namespace), nameOf(&ref))
	if r == nil {
		return nil, noRole(ref, func(rbacv1.RoleRef) schema.GroupResource { return as })
	}
	return r.rules(), nil
}

// missing returns the reason for NoOpinion: the granted roles that do not exist.
func (x *index) missing(u *authn.User, local *scope) string {
	var missing []error
	for _, in := range [...]*scope{x.cluster, local} {
		for _, g := range in.granted(u) {
			if x.role(in, g.role) == nil {
				missing = append(missing, noRole(g.binding.ref, listed))
			}
		}
	}
	return fmt.Sprintf("RBAC: %v", causes.Errors(missing))
}

// naming returns the resource of a missing role, for error messages.
type naming func(rbacv1.RoleRef) schema.GroupResource

// listed is the naming of Kubernetes' listers, with the kind in lower case.
func listed(ref rbacv1.RoleRef) schema.GroupResource {
	return schema.GroupResource{Group: rbacv1.GroupName, Resource: strings.ToLower(ref.Kind)}
}

func noRole(ref rbacv1.RoleRef, as naming) error {
	if ref.Kind != "Role" && ref.Kind != "ClusterRole" {
		return fmt.Errorf("unsupported role reference kind: %q", ref.Kind)
	}
	return apierrors.NewNotFound(as(ref), ref.Name)
}
