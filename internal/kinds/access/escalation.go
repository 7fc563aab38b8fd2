package access

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/kapok-dev/kapok/internal/authn"
	"github.com/kapok-dev/kapok/internal/authz"
	authrbac "github.com/kapok-dev/kapok/internal/authz/rbac"
	"github.com/kapok-dev/kapok/internal/kinds/kind"
	"github.com/kapok-dev/kapok/internal/kinds/users"
	"github.com/kapok-dev/kapok/internal/resource"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Escalation checks: a user who writes a role must hold all of its rules, or have the verb escalate
// on it; a user who writes a binding must hold all rules of its role, or have the verb bind on it.
// The source is k8s.io/kubernetes/pkg/registry/rbac/*/policybased.

// permitRole implements Strategy.Permit for roles.
func permitRole(ctx context.Context, _ *resource.Store, r *resource.Request, obj, old resource.Tree) error {
	if authn.Of(r.User).In(authn.Masters) || onlyForCollector(obj, old) {
		return nil
	}
	escalate := &authz.Attributes{
		Verb: "escalate", ResourceRequest: true, APIGroup: rbacv1.GroupName, APIVersion: "*",
		Resource: r.Definition.Plural, Namespace: r.Namespace, Name: r.Name,
	}
	if users.Of(r).Permit(ctx, r, escalate) == nil {
		return nil
	}
	role := kind.Decoded[rbacv1.ClusterRole](obj) // a Role is a ClusterRole without an aggregation rule
	if err := ensureHeld(r, role.Rules); err != nil {
		return apierrors.NewForbidden(r.GroupResource(), role.Name, err)
	}
	if gathers(role) || old != nil && gathers(kind.Decoded[rbacv1.ClusterRole](old)) {
		if ensureHeld(r, everything()) != nil {
			return apierrors.NewForbidden(r.GroupResource(), role.Name, errors.New("must have cluster-admin privileges to use the aggregationRule"))
		}
	}
	return nil
}

// gathers reports whether a role aggregates the rules of others, which may be any.
func gathers(role *rbacv1.ClusterRole) bool {
	return role.AggregationRule != nil && len(role.AggregationRule.ClusterRoleSelectors) > 0
}

func everything() []rbacv1.PolicyRule {
	all := []string{"*"}
	return []rbacv1.PolicyRule{{Verbs: all, APIGroups: all, Resources: all}, {Verbs: all, NonResourceURLs: all}}
}

// permitBinding implements Strategy.Permit for bindings.
func permitBinding(ctx context.Context, _ *resource.Store, r *resource.Request, obj, old resource.Tree) error {
	if authn.Of(r.User).In(authn.Masters) || onlyForCollector(obj, old) {
		return nil
	}
	binding := kind.Decoded[rbacv1.RoleBinding](obj)
	if mayBind(ctx, r, binding.RoleRef) {
		return nil
	}
	roles := users.Of(r).Roles
	if roles == nil {
		return apierrors.NewForbidden(r.GroupResource(), binding.Name, errors.New("the server has no RBAC roles to check"))
	}
	rules, err := roles.RulesOf(binding.RoleRef, r.Namespace, r.GroupResource())
	if err != nil {
		return err
	}
	if err := ensureHeld(r, rules); err != nil {
		return apierrors.NewForbidden(r.GroupResource(), binding.Name, err)
	}
	return nil
}

// mayBind authorizes the verb bind on a role in the namespace of the binding.
func mayBind(ctx context.Context, r *resource.Request, ref rbacv1.RoleRef) bool {
	bind := &authz.Attributes{
		Verb: "bind", ResourceRequest: true, APIGroup: ref.APIGroup, APIVersion: "*", Namespace: r.Namespace, Name: ref.Name,
	}
	switch ref.Kind {
	case "ClusterRole":
		bind.Resource = "clusterroles"
	case "Role":
		bind.Resource = "roles"
	default:
		return false
	}
	return users.Of(r).Permit(ctx, r, bind) == nil
}

// ensureHeld returns an error with the rules that the user of a request does not hold.
func ensureHeld(r *resource.Request, rules []rbacv1.PolicyRule) error {
	var held []rbacv1.PolicyRule
	var unresolved error
	if roles := users.Of(r).Roles; roles != nil {
		held, unresolved = roles.Held(authn.Of(r.User), r.Namespace, r.GroupResource())
	}
	missing := authrbac.Missing(held, rules)
	if missing == "" {
		return nil
	}
	text := fmt.Sprintf("user %q (groups=%q) is attempting to grant RBAC permissions not currently held:\n%s", r.User.GetName(), r.User.GetGroups(), missing)
	if unresolved != nil {
		text += fmt.Sprintf("; resolution errors: %v", []error{unresolved})
	}
	return errors.New(text)
}

// onlyForCollector reports whether an update changes only the metadata that the garbage collector
// changes.
func onlyForCollector(obj, old resource.Tree) bool {
	if old == nil {
		return false
	}
	rest := func(obj resource.Tree) resource.Tree {
		obj = maps.Clone(obj)
		delete(obj, "apiVersion")
		delete(obj, "kind")
		metadata, _ := obj["metadata"].(resource.Tree)
		metadata = maps.Clone(metadata)
		for _, key := range []string{"ownerReferences", "finalizers", "managedFields", "selfLink"} {
			delete(metadata, key)
		}
		obj["metadata"] = metadata
		return obj
	}
	return equality.Semantic.DeepEqual(rest(obj), rest(old))
}
